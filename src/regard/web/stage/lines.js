// Lines between words: on the left who looks, on the right what is looked at, a line as strong as its weight.

import { onWidth } from "./canvas.js";
import { draw, make, put, word } from "./dom.js";
import { share } from "./numbers.js";

const LINE_STEP = 24;
const LEAST = 0.02; // weights under this get no line; their numbers are in the map

/** view: the same as HeatMap's. */
export class Lines {
  constructor({ onPick }) {
    this.onPick = onPick;
    this.pointed = null;
    this.left = make("div", { class: "lines-side lines-left", role: "group" });
    this.right = make("div", { class: "lines-side lines-right" });
    this.picture = draw("svg", { class: "lines-picture", "aria-hidden": "true" });
    this.element = make("div", { class: "lines" }, this.left, this.picture, this.right);
    onWidth(this.element, () => this.view && this.#redraw());
  }

  update(view) {
    const before = this.view;
    this.view = view;
    this.pointed = null;
    if (before?.rows !== view.rows || before?.columns !== view.columns) this.#build();
    put(this.left, "aria-label", view.label);
    this.#redraw();
  }

  #redraw() {
    this.#join();
    this.#light();
  }

  #build() {
    const { rows, columns, sides } = this.view;
    this.left.replaceChildren(...rows.map((unit, row) => this.#query(unit, row, sides.rows)));
    this.right.replaceChildren(...columns.map((unit) => this.#key(unit, sides.columns)));
    const tall = Math.max(rows.length, columns.length) * LINE_STEP;
    this.picture.style.height = `${tall}px`;
  }

  #query(unit, row, side) {
    const point = (at) => () => this.#point(at);
    return make("button", {
      type: "button",
      class: "lines-word",
      title: unit.text,
      "data-special": unit.special,
      onclick: () => this.onPick({ row }),
      onpointerenter: point(row),
      onpointerleave: point(null),
      onfocus: point(row),
      onblur: point(null),
    }, word(unit.text, side));
  }

  #key(unit, side) {
    return make(
      "span",
      { class: "lines-word", title: unit.text, "data-special": unit.special },
      make("span", { class: "number lines-share" }),
      word(unit.text, side),
    );
  }

  #point(row) {
    this.pointed = row;
    this.#light();
  }

  #join() {
    const { rows, columns, values } = this.view;
    const width = this.picture.clientWidth || 100;
    this.groups = rows.map((_, r) => {
      const paths = [];
      columns.forEach((__, c) => {
        const weight = values[r * columns.length + c];
        if (weight < LEAST) return;
        const [y, z] = [(r + 0.5) * LINE_STEP, (c + 0.5) * LINE_STEP];
        const curve = `M0 ${y} C${width * 0.45} ${y} ${width * 0.55} ${z} ${width} ${z}`;
        paths.push(
          draw("path", {
            d: curve,
            "stroke-opacity": weight.toFixed(3),
            "stroke-width": (0.75 + 2.75 * weight).toFixed(2),
          }),
        );
      });
      return draw("g", {}, ...paths);
    });
    this.picture.replaceChildren(...this.groups);
  }

  #light() {
    const { columns, values, row } = this.view;
    const at = this.pointed ?? row;
    this.groups.forEach((group, i) => put(group, "data-lit", i === at));
    [...this.left.children].forEach((button, i) => {
      put(button, "data-lit", i === at);
      put(button, "aria-pressed", i === row ? "true" : "false");
    });
    [...this.right.children].forEach((label, c) => {
      const weight = values[at * columns.length + c];
      label.firstChild.textContent = share(weight);
      put(label, "data-lit", weight >= 0.1);
    });
  }
}
