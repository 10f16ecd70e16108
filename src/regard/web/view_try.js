// Try it: take something away from the model, and see before and after side by side.

import { BeforeAfter } from "./before_after.js";
import { make } from "./dom.js";
import { HeadsThatMatter } from "./heads_that_matter.js";
import { linePicker } from "./line_picker.js";
import { headOf, keyOf, look, question, touched } from "./looking.js";
import { onReturn } from "./service.js";
import { stageModule } from "./stage_module.js";
import { change, onChange, state, UNTOUCHED } from "./state.js";
import { onLanguage, rewrite, t } from "./texts.js";

const PAUSE = 250; // milliseconds without a keystroke
const PATIENCE = 200;

export class TryView {
  #said = make("p", { class: "note", role: "status" });
  #bench = make("div", { class: "bench" });
  #wallBox = make("div", { class: "wall-box" });
  #silenced = make("ul", { class: "silenced" });
  #reset = make("button", {
    class: "textlink",
    "data-text": "try.reset",
    onclick: () => change({ changes: UNTOUCHED }),
  });
  #result = new BeforeAfter();
  #matter = new HeadsThatMatter((colours) => this.#colour(colours));
  #controls;
  #wall = null;
  #look = null;
  #colours = null;
  #timer = 0;
  #controller = null;

  constructor(element) {
    this.#controls = new Controls();
    const heads = make(
      "section",
      { class: "heads" },
      make("h2", { "data-text": "try.heads" }),
      make("p", { class: "note", "data-text": "try.heads.how" }),
    );
    heads.append(this.#wallBox, this.#silenced, this.#matter.element);
    this.#bench.append(heads, make("div", { class: "levers" }, this.#controls.element, this.#reset));
    const intro = make("p", { class: "intro", "data-text": "try.intro" });
    element.append(intro, linePicker(), this.#said, this.#result.element, this.#result.words, this.#bench);
    rewrite(null, element);
    onChange(["changes"], () => this.#showChanges());
    onChange(
      ["view", "text", "line", "models", "model", "target", "chosen", "changes"],
      ({ changed }) => this.#want(changed.has("text") ? PAUSE : 0),
    );
    onReturn(() => this.#want(0));
    onLanguage(() => {
      this.#showChanges();
      this.#want(0);
    });
    this.#showChanges();
    this.#want(0);
  }

  #want(pause) {
    clearTimeout(this.#timer);
    this.#controller?.abort();
    if (state.view !== "try") return;
    if (!state.models.length) return this.#say("", true); // an address may name heads that the model does not have
    const body = question(state.changes);
    if (!body) return this.#say(t("look.blank"), true);
    // Before and after are the model's own choices: a translation that was taken over would hide what changes.
    this.#timer = setTimeout(() => this.#run({ ...body, translation: null }), pause);
  }

  async #run(body) {
    const controller = (this.#controller = new AbortController());
    const patience = setTimeout(() => this.#say(t("look.waiting")), PATIENCE);
    try {
      const found = await look(body, controller.signal);
      const { Wall } = await stageModule("wall.js");
      if (controller.signal.aborted) return;
      this.#say("");
      this.#result.show(found);
      this.#look = found;
      this.#showWall(Wall);
    } catch (error) {
      if (!controller.signal.aborted) this.#say(t("refused", error.code, error.message));
    } finally {
      clearTimeout(patience);
    }
  }

  #showWall(Wall) {
    const options = {
      look: this.#look,
      language: state.language,
      level: "words",
      selected: null,
      off: new Set(state.changes.off),
      colours: this.#colours,
      onPick: (head) => this.#pick(keyOf(head)),
    };
    if (this.#wall) this.#wall.update(options);
    else this.#wall = new Wall(this.#wallBox, options);
  }

  #pick(key) {
    const { off } = state.changes;
    change({
      changes: { ...state.changes, off: off.includes(key) ? off.filter((one) => one !== key) : [...off, key] },
    });
  }

  #colour(colours) {
    this.#colours = colours;
    this.#wall?.update({ colours });
  }

  #showChanges() {
    const { changes } = state;
    this.#wall?.update({ off: new Set(changes.off), language: state.language });
    this.#controls.show(changes);
    this.#reset.disabled = !touched(changes);
    this.#silenced.replaceChildren(...changes.off.map((key) => this.#chip(key)));
  }

  #chip(key) {
    const name = t("try.head", headOf(key));
    return make(
      "li",
      {},
      make(
        "button",
        { "aria-label": t("try.restore", name), onclick: () => this.#pick(key) },
        make("s", {}, name),
        " ×",
      ),
    );
  }

  #say(text, instead = false) {
    this.#said.textContent = text;
    for (const one of [this.#bench, this.#result.element, this.#result.words]) one.hidden = instead;
  }
}

/** The switches beside the wall. */
class Controls {
  element = make("div", { class: "switches" });
  #switches = {};
  #positions = {};

  constructor() {
    for (const name of ["scale", "mask"]) this.element.append(this.#switch(name));
    this.element.append(this.#choice());
  }

  show({ scale, mask, positions }) {
    this.#switches.scale.checked = scale;
    this.#switches.mask.checked = mask;
    this.#positions[positions].checked = true;
  }

  #switch(name) {
    const onchange = (event) => change({ changes: { ...state.changes, [name]: event.target.checked } });
    const box = (this.#switches[name] = make("input", {
      type: "checkbox",
      role: "switch",
      id: `try-${name}`,
      "aria-describedby": `try-${name}-why`,
      onchange,
    }));
    return make(
      "div",
      { class: "lever" },
      make("label", {}, box, make("span", { "data-text": `try.${name}` })),
      make("p", { class: "why", id: `try-${name}-why`, "data-text": `try.${name}.why` }),
    );
  }

  #choice() {
    const onchange = (event) => change({ changes: { ...state.changes, positions: event.target.value } });
    const options = ["normal", "shuffled", "none"].map((value) => {
      const radio = (this.#positions[value] = make("input", { type: "radio", name: "positions", value, onchange }));
      return make("label", {}, radio, make("span", { "data-text": `try.positions.${value}` }));
    });
    const legend = make("legend", { "data-text": "try.positions" });
    return make(
      "fieldset",
      { class: "lever" },
      legend,
      make("div", { class: "options" }, ...options),
      make("p", { class: "why", "data-text": "try.positions.why" }),
    );
  }
}
