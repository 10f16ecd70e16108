// The page of `regard look --html`: a look as one file, with its sentence, interventions, language and theme.

import { make, setText } from "../dom.js";
import { DependencePanel } from "../look/dependence_panel.js";
import { isTransformerLook } from "../look/look_data.js";
import { LookPanel } from "../look/look_panel.js";
import { placeParameters, readPlace } from "../look/place.js";
import { RecordedPanel } from "../look/recorded_panel.js";
import { language, languages, onLanguage, setLanguage, t } from "../texts/texts.js";

/** @import { Place } from "../look/place.js" */

const LANGUAGE_NAMES = { en: "EN", ko: "한국어" };

/** What was changed in the model, as short phrases; empty for the unchanged model. */
function describeInterventions({ heads_off: off, scale, mask, positions }) {
  const phrases = off.map((head) => t("file.off", head));
  if (!scale) phrases.push(t("file.scale"));
  if (!mask) phrases.push(t("file.mask"));
  if (positions !== "normal") phrases.push(t(`file.positions.${positions}`));
  return phrases;
}

class LookFile {
  /**
   * @param {HTMLElement} element
   * @param {any} look
   */
  constructor(element, look) {
    this.look = look;
    this.name = make("p", { class: "file-name" });
    this.notes = make("dl", { class: "file-notes" });
    this.languageButtons = languages().map((code) =>
      make("button", { type: "button", lang: code, onclick: () => setLanguage(code) }, LANGUAGE_NAMES[code])
    );
    this.languages = make("div", { class: "file-languages", role: "group" }, this.languageButtons);
    this.theme = make("button", { type: "button", class: "file-theme", onclick: switchTheme }, "◐");
    this.title = make("h2", { class: "file-part" });
    this.dependence = make("div");
    const panel = make("div");
    element.append(
      make("header", { class: "file-head" }, this.name, this.languages, this.theme),
      make("h1", { class: "file-source", dir: "auto" }, look.source.text),
      make("p", { class: "file-translation", dir: "auto" }, look.target.text),
      this.notes,
      ...(look.dependence ? [this.title, this.dependence] : []),
      panel,
    );
    onLanguage(() => this.#write());
    setLanguage((navigator.language ?? "en").toLowerCase().startsWith("ko") ? "ko" : "en");
    new (isTransformerLook(look) ? LookPanel : RecordedPanel)(panel, {
      look,
      place: readPlace(new URLSearchParams(location.hash.slice(1) || element.dataset.place)),
      onPlace: writePlace,
    });
    if (look.dependence) new DependencePanel(this.dependence, { look });
  }

  #write() {
    document.documentElement.lang = language();
    setText(this.name, t("file.name", this.look.model.name));
    setText(this.title, t("look.depends.title"));
    this.languages.setAttribute("aria-label", t("file.language"));
    this.theme.setAttribute("aria-label", t("file.theme"));
    for (const button of this.languageButtons) {
      button.setAttribute("aria-pressed", String(button.lang === language()));
    }
    const phrases = describeInterventions(this.look.interventions);
    const notes = [
      ...(this.look.target.given ? [[t("file.given"), "✓"]] : []),
      ...(phrases.length ? [[t("file.changed"), phrases.join(" · ")]] : []),
      ...(this.look.change ? [[t("file.before"), this.look.change.before.text]] : []),
    ];
    this.notes.replaceChildren(
      ...notes.flatMap(([name, text]) => [make("dt", {}, name), make("dd", { dir: "auto" }, text)]),
    );
  }
}

/** From light to dark and back, whatever the system prefers. */
function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

/** Keeps the place in the address, so that a reload or a link returns to it. */
function writePlace(/** @type {Place} */ place) {
  try {
    history.replaceState(null, "", `#${new URLSearchParams(placeParameters(place))}`);
  } catch {
    // The preview of a mail program may forbid it; the page works without.
  }
}

new LookFile(document.getElementById("page"), JSON.parse(document.getElementById("look").textContent));
