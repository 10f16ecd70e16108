// The view "Try it": changes something in the model and compares the translations before and after.

import { make } from "../dom.js";
import { linePicker } from "../line_picker.js";
import { headKey, parseHeadKey } from "../look/head_key.js";
import { loadModule } from "../look/load.js";
import { isTransformerLook } from "../look/look_data.js";
import { fetchLook, isChanged, lookRequest, shownTranslation } from "../look/look_request.js";
import { onReconnect } from "../service.js";
import { change, onChange, state, translates, UNCHANGED } from "../state.js";
import { onLanguage, t, translateElements } from "../texts/texts.js";
import { BeforeAfter } from "./before_after.js";
import { HeadImportance } from "./head_importance.js";

/** @import { Changes } from "../state.js" */

// In milliseconds.
const TYPING_PAUSE = 250;
const SHOW_WAITING_AFTER = 200;

export class TryView {
  #head = make("div");
  #note = make("p", { class: "note", role: "status" });
  #interventions = make("div", { class: "interventions" });
  #gridBox = make("div", { class: "head-grid-box" });
  #headsOff = make("ul", { class: "heads-off" });
  #reset = make("button", {
    class: "textlink",
    "data-text": "try.reset",
    onclick: () => change({ changes: UNCHANGED }),
  });
  #result = new BeforeAfter();
  #importance = new HeadImportance((importance) => this.#showImportance(importance));
  #switches = new Switches();
  #grid = null;
  #look = null;
  #importanceOfHeads = null;
  #timer = 0;
  #controller = null;

  /** @param {HTMLElement} element */
  constructor(element) {
    const heads = make(
      "section",
      { class: "heads" },
      make("h2", { "data-text": "try.heads" }),
      make("p", { class: "note", "data-text": "try.heads.how" }),
      this.#gridBox,
      this.#headsOff,
      this.#importance.element,
    );
    this.#interventions.append(
      heads,
      make("div", { class: "intervention-controls" }, this.#switches.element, this.#reset),
    );
    this.#head.append(make("p", { class: "intro", "data-text": "try.intro" }), linePicker());
    const { element: comparison, effect, words } = this.#result;
    element.append(this.#head, this.#note, comparison, effect, this.#interventions, words);
    translateElements(element);
    onChange(["changes"], () => this.#showChanges());
    onChange(
      ["view", "text", "line", "models", "model", "target", "chosen", "changes"],
      ({ changed }) => this.#schedule(changed.has("text") ? TYPING_PAUSE : 0),
    );
    onReconnect(() => this.#schedule(0));
    onLanguage(() => {
      this.#showChanges();
      this.#schedule(0);
    });
    this.#showChanges();
    this.#showNote("", true); // until it is known what the model has
    this.#schedule(0);
  }

  #schedule(/** @type {number} */ delay) {
    clearTimeout(this.#timer);
    this.#controller?.abort();
    if (state.view !== "try") return;
    if (!state.models.length) return this.#showNote("", true); // the address may name heads that the model does not have
    if (!translates()) return this.#showNothingToTry();
    const body = lookRequest(state.changes);
    if (!body) return this.#showNote(t("look.blank"), true);
    // Both translations are the model's own: a selected alternative would hide the effect of a change.
    this.#timer = setTimeout(() => this.#load(body), delay);
  }

  async #load(body) {
    const controller = (this.#controller = new AbortController());
    const waiting = setTimeout(
      () => this.#showNote(t("look.waiting"), Boolean(this.#interventions.hidden)),
      SHOW_WAITING_AFTER,
    );
    try {
      const look = await fetchLook(body, controller.signal);
      const { HeadGrid } = await loadModule("head_grid.js");
      if (controller.signal.aborted) return;
      if (!isTransformerLook(look)) return this.#showNothingToTry();
      this.#showNote([null, ownTranslation(look)].includes(shownTranslation()) ? "" : t("try.own"));
      this.#result.show(look);
      this.#look = look;
      this.#showGrid(HeadGrid);
    } catch (error) {
      if (!controller.signal.aborted) this.#showNote(t("refused", error.code, error.message));
    } finally {
      clearTimeout(waiting);
    }
  }

  #showGrid(HeadGrid) {
    const options = {
      look: this.#look,
      level: "words",
      selected: null,
      off: new Set(state.changes.off),
      importance: this.#importanceOfHeads,
      onPick: (head) => this.#toggleHead(headKey(head)),
    };
    if (this.#grid) this.#grid.update(options);
    else this.#grid = new HeadGrid(this.#gridBox, options);
  }

  #toggleHead(/** @type {string} */ key) {
    const { off } = state.changes;
    const toggled = off.includes(key) ? off.filter((other) => other !== key) : [...off, key];
    change({ changes: { ...state.changes, off: toggled } });
  }

  #showImportance(importance) {
    this.#importanceOfHeads = importance;
    this.#grid?.update({ importance });
  }

  #showChanges() {
    const { changes } = state;
    this.#grid?.update({ off: new Set(changes.off) });
    this.#switches.show(changes);
    this.#reset.disabled = !isChanged(changes);
    this.#headsOff.replaceChildren(...changes.off.map((key) => this.#headButton(key)));
  }

  #headButton(/** @type {string} */ key) {
    const name = t("try.head", parseHeadKey(key));
    const attributes = { "aria-label": t("try.restore", name), onclick: () => this.#toggleHead(key) };
    return make("li", {}, make("button", attributes, make("s", {}, name), " ×"));
  }

  #showNothingToTry() {
    this.#showNote(t("try.fixed"), true);
    this.#head.hidden = true;
  }

  #showNote(text, hideRest = false) {
    this.#note.textContent = text;
    this.#head.hidden = false;
    const { element, effect, words } = this.#result;
    for (const part of [this.#interventions, element, effect, words]) part.hidden = hideRest;
  }
}

/** The translation of the model without changes. */
const ownTranslation = (look) => (look.change?.before ?? look.target).text;

/** The switches beside the grid of heads. */
class Switches {
  element = make("div", { class: "switches" });
  /** @type {Record<string, HTMLInputElement>} */
  #checkboxes = {};
  /** @type {Record<string, HTMLInputElement>} */
  #positions = {};

  constructor() {
    for (const name of ["scale", "mask"]) this.element.append(this.#switch(name));
    this.element.append(this.#positionChoice());
  }

  /** @param {Changes} changes */
  show({ scale, mask, positions }) {
    this.#checkboxes.scale.checked = scale;
    this.#checkboxes.mask.checked = mask;
    this.#positions[positions].checked = true;
  }

  #switch(/** @type {string} */ name) {
    const id = `try-${name}`;
    const onchange = (event) => change({ changes: { ...state.changes, [name]: event.target.checked } });
    const attributes = { type: "checkbox", role: "switch", id, "aria-describedby": `${id}-why`, onchange };
    const checkbox = (this.#checkboxes[name] = make("input", attributes));
    return make(
      "div",
      { class: "intervention" },
      make("label", {}, checkbox, make("span", { "data-text": `try.${name}` })),
      make("p", { class: "explanation", id: `${id}-why`, "data-text": `try.${name}.why` }),
    );
  }

  #positionChoice() {
    const onchange = (event) => change({ changes: { ...state.changes, positions: event.target.value } });
    const options = ["normal", "shuffled", "none"].map((value) => {
      const radio = (this.#positions[value] = make("input", { type: "radio", name: "positions", value, onchange }));
      return make("label", {}, radio, make("span", { "data-text": `try.positions.${value}` }));
    });
    return make(
      "fieldset",
      { class: "intervention" },
      make("legend", { "data-text": "try.positions" }),
      make("div", { class: "options" }, ...options),
      make("p", { class: "explanation", "data-text": "try.positions.why" }),
    );
  }
}
