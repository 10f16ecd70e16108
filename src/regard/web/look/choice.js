// Form controls: a choice of one of several (native radio buttons), a switch, a slider.

import { make, setAttribute, uniqueId, wordElement } from "../dom.js";

/** @import { Unit } from "../words.js" */
/** @typedef {{ value: any, text: string, side?: string | null, special?: boolean }} Option */

/** One of several words or numbers. */
export class Choice {
  #key = "";

  /** @param {{ name: string, onPick: (value: any) => void, kind?: "segments" | "sentence" }} options */
  constructor({ name, onPick, kind = "segments" }) {
    this.onPick = onPick;
    this.group = uniqueId("choice");
    this.name = make("span", { class: "choice-name", id: uniqueId("name") });
    this.list = make("span", { class: "choice-list" });
    this.element = make(
      "div",
      { class: `choice ${kind}`, role: "radiogroup", "data-choice": name, "aria-labelledby": this.name.id },
      this.name,
      this.list,
    );
  }

  /**
   * @param {string} label
   * @param {Option[]} options
   * @param {any} value the selected one
   */
  update(label, options, value) {
    this.name.textContent = label;
    this.element.hidden = options.length < 2;
    const key = options.map((option) => `${option.value}\u0000${option.text}`).join("\u0001");
    if (key !== this.#key) this.#build(options);
    this.#key = key;
    for (const input of this.list.querySelectorAll("input")) input.checked = input.value === String(value);
  }

  #build(options) {
    this.list.replaceChildren(...options.map((option) => this.#option(option)));
  }

  #option({ value, text, side = null, special = false }) {
    const input = make("input", {
      type: "radio",
      name: this.group,
      value,
      class: "visually-hidden",
      onchange: () => this.onPick(value),
    });
    const label = make("label", { class: "choice-option" }, input, wordElement(text, side));
    if (special) setAttribute(label, "data-special", true);
    return label;
  }
}

/** An on/off switch with a label. */
export class Switch {
  /** @param {{ name: string, onTurn: (on: boolean) => void }} options */
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

  /**
   * @param {string} label
   * @param {boolean} on
   */
  update(label, on) {
    this.text.textContent = label;
    this.input.checked = on;
  }
}

/** A slider with its value beside it. */
export class Slider {
  /** @param {{ name: string, onSlide: (value: number) => void }} options */
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

  /**
   * @param {string} label
   * @param {number} max
   * @param {number} value
   * @param {string} text the value as text
   */
  update(label, max, value, text) {
    this.name.textContent = label;
    this.input.max = String(max);
    this.input.value = String(value);
    this.value.textContent = text;
    setAttribute(this.input, "aria-valuetext", text);
  }
}

/**
 * The words or pieces of a sentence as options.
 * @param {Unit[]} units
 * @param {string} side
 * @returns {Option[]}
 */
export function unitOptions(units, side) {
  return units.map((unit, i) => ({ value: i, text: unit.text, side, special: unit.special }));
}
