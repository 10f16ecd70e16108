// One of several: a row of words or numbers, of which one is chosen. Native radio buttons underneath.

import { freshId, make, put, word } from "./dom.js";

/** options: [{value, text, side}]; picking calls onPick(value). */
export class Choice {
  #key = "";

  constructor({ name, onPick, kind = "segments" }) {
    this.onPick = onPick;
    this.group = freshId("choice");
    this.name = make("span", { class: "choice-name", id: freshId("name") });
    this.list = make("span", { class: "choice-list" });
    this.element = make(
      "div",
      { class: `choice ${kind}`, role: "radiogroup", "data-choice": name, "aria-labelledby": this.name.id },
      this.name,
      this.list,
    );
  }

  update(label, options, value) {
    this.name.textContent = label;
    this.element.hidden = options.length < 2;
    const key = options.map((option) => `${option.value}\u0000${option.text}`).join("\u0001");
    if (key !== this.#key) this.#build(options);
    this.#key = key;
    for (const input of this.list.querySelectorAll("input")) input.checked = input.value === String(value);
  }

  #build(options) {
    this.list.replaceChildren(...options.map((option) => this.#one(option)));
  }

  #one({ value, text, side = null, special = false }) {
    const input = make("input", {
      type: "radio",
      name: this.group,
      value,
      class: "unseen",
      onchange: () => this.onPick(value),
    });
    const label = make("label", { class: "choice-one" }, input, word(text, side));
    if (special) put(label, "data-special", true);
    return label;
  }
}

/** An on/off switch with its words beside it. */
export class Switch {
  constructor({ name, onTurn }) {
    this.input = make("input", {
      type: "checkbox",
      role: "switch",
      "data-switch": name,
      onchange: () => onTurn(this.input.checked),
    });
    this.text = make("span");
    this.element = make("label", { class: "switch" }, this.input, this.text);
  }

  update(label, on) {
    this.text.textContent = label;
    this.input.checked = on;
  }
}

/** A slider with its value written beside it. */
export class Slider {
  constructor({ name, onSlide }) {
    this.input = make("input", {
      type: "range",
      min: 0,
      step: 1,
      "data-slider": name,
      oninput: () => onSlide(Number(this.input.value)),
    });
    this.name = make("span", { class: "choice-name" });
    this.value = make("output", { class: "number" });
    this.element = make("label", { class: "slider" }, this.name, this.input, this.value);
  }

  update(label, top, value, text) {
    this.name.textContent = label;
    this.input.max = String(top);
    this.input.value = String(value);
    this.value.textContent = text;
    put(this.input, "aria-valuetext", text);
  }
}

/** Units of a sentence as options of a Choice. */
export function unitOptions(units, side) {
  return units.map((unit, i) => ({ value: i, text: unit.text, side, special: unit.special }));
}
