// The page around the stage when a look is a file of its own: the sentence, what was changed, language and theme.

import { make, write } from "./dom.js";
import { Stage } from "./stage.js";

const PAGE_TEXTS = {
  en: {
    name: (model) => `Inside ${model}`,
    given: "given translation",
    before: "Before",
    changed: "Changed",
    off: (head) =>
      `${{ encoder: "encoder", decoder: "decoder", cross: "encoder–decoder" }[head.attention]} layer ${
        head.layer + 1
      } head ${head.head + 1} off`,
    scale: "no ÷ √d_k",
    mask: "no mask",
    positions: { shuffled: "positions shuffled", none: "no positions" },
    language: "Language",
    theme: "Light or dark",
  },
  ko: {
    name: (model) => `${model} 들여다보기`,
    given: "주어진 번역",
    before: "바꾸기 전",
    changed: "바꾼 것",
    off: (head) =>
      `${{ encoder: "인코더", decoder: "디코더", cross: "인코더–디코더" }[head.attention]} ${head.layer + 1}층 헤드 ${
        head.head + 1
      } 끔`,
    scale: "÷ √d_k 없음",
    mask: "마스크 없음",
    positions: { shuffled: "위치 섞음", none: "위치 없음" },
    language: "언어",
    theme: "밝게 또는 어둡게",
  },
};

/** What was done to the model, as short phrases; nothing for a model as it is. */
function alterations({ heads_off: off, scale, mask, positions }, t) {
  const said = off.map((head) => t.off(head));
  if (!scale) said.push(t.scale);
  if (!mask) said.push(t.mask);
  if (positions !== "normal") said.push(t.positions[positions]);
  return said;
}

class FilePage {
  constructor(element, look) {
    this.look = look;
    this.element = element;
    this.language = (navigator.language ?? "en").toLowerCase().startsWith("ko") ? "ko" : "en";
    this.name = make("p", { class: "page-name" });
    this.notes = make("dl", { class: "page-notes" });
    this.languages = make("div", { class: "page-languages", role: "group" }, ...this.#languageButtons());
    this.theme = make("button", { type: "button", class: "page-theme", onclick: () => this.#turn() }, "◐");
    const stage = make("div", {});
    element.append(
      make("header", { class: "page-head" }, this.name, this.languages, this.theme),
      make("h1", { class: "page-source", dir: "auto" }, look.source.text),
      make("p", { class: "page-translation", dir: "auto" }, look.target.text),
      this.notes,
      stage,
    );
    this.stage = new Stage(stage, {
      look,
      language: this.language,
      place: this.#place(),
      onPlace: (place) => this.#keep(place),
    });
    this.#write();
  }

  #languageButtons() {
    return [["en", "EN"], ["ko", "한국어"]].map(([code, name]) =>
      make("button", { type: "button", lang: code, "data-code": code, onclick: () => this.#speak(code) }, name)
    );
  }

  #speak(language) {
    this.language = language;
    this.stage.setLanguage(language);
    this.#write();
  }

  #write() {
    const t = PAGE_TEXTS[this.language];
    document.documentElement.lang = this.language;
    write(this.name, t.name(this.look.model.name));
    this.languages.setAttribute("aria-label", t.language);
    this.theme.setAttribute("aria-label", t.theme);
    for (const button of this.languages.children) {
      button.setAttribute("aria-pressed", button.dataset.code === this.language);
    }
    const said = alterations(this.look.interventions, t);
    const notes = [
      ...(this.look.target.given ? [[t.given, "✓"]] : []),
      ...(said.length ? [[t.changed, said.join(" · ")]] : []),
      ...(this.look.change ? [[t.before, this.look.change.before.text]] : []),
    ];
    this.notes.replaceChildren(
      ...notes.flatMap(([name, text]) => [make("dt", {}, name), make("dd", { dir: "auto" }, text)]),
    );
  }

  /** From what is shown to the other one, whatever the machine prefers. */
  #turn() {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  }

  /** Where the reader was, else where the file was asked to open. */
  #place() {
    return Object.fromEntries(new URLSearchParams(location.hash.slice(1) || this.element.dataset.place));
  }

  /** The address keeps the place, so that a reload or a link comes back to it. */
  #keep(place) {
    const kept = Object.entries(place).filter(([, value]) => value !== null && value !== undefined);
    try {
      history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
    } catch {
      // a mail program's preview may not let us, and then there is no address to keep it in
    }
  }
}

new FilePage(document.getElementById("page"), JSON.parse(document.getElementById("look").textContent));
