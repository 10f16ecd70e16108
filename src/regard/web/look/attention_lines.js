// Attention as lines from the queries on the left to the keys on the right; stronger lines have larger weights.

import { make, makeSvg, setAttribute, wordElement } from "../dom.js";
import { formatWeight } from "../format.js";
import { onWidth } from "./canvas.js";

/** @import { HeadView } from "./head_detail.js" */

const ROW_HEIGHT = 24; // px
const MIN_WEIGHT = 0.02; // smaller weights get no line; the heat map shows them

export class AttentionLines {
  /** @param {{ onPick: (cell: { row: number }) => void }} callbacks */
  constructor({ onPick }) {
    this.onPick = onPick;
    /** @type {number | null} */
    this.pointed = null;
    this.left = make("div", { class: "lines-side lines-left", role: "group" });
    this.right = make("div", { class: "lines-side lines-right" });
    this.picture = makeSvg("svg", { class: "lines-picture", "aria-hidden": "true" });
    this.element = make("div", { class: "lines" }, this.left, this.picture, this.right);
    onWidth(this.element, () => this.view && this.#redraw());
  }

  /** @param {HeadView} view */
  update(view) {
    const before = this.view;
    this.view = view;
    this.pointed = null;
    if (before?.rows !== view.rows || before?.columns !== view.columns) this.#build();
    setAttribute(this.left, "aria-label", view.label);
    this.#redraw();
  }

  #redraw() {
    this.#drawLines();
    this.#highlight();
  }

  #build() {
    const { rows, columns, sides } = this.view;
    this.left.replaceChildren(...rows.map((unit, row) => this.#query(unit, row, sides.rows)));
    this.right.replaceChildren(...columns.map((unit) => this.#key(unit, sides.columns)));
    this.picture.style.height = `${Math.max(rows.length, columns.length) * ROW_HEIGHT}px`;
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
    }, wordElement(unit.text, side));
  }

  #key(unit, side) {
    return make(
      "span",
      { class: "lines-word", title: unit.text, "data-special": unit.special },
      make("span", { class: "number lines-weight" }),
      wordElement(unit.text, side),
    );
  }

  #point(row) {
    this.pointed = row;
    this.#highlight();
  }

  #drawLines() {
    const { rows, columns, values } = this.view;
    const width = this.picture.clientWidth || 100;
    this.groups = rows.map((_, r) => {
      const paths = [];
      columns.forEach((__, c) => {
        const weight = values[r * columns.length + c];
        if (weight < MIN_WEIGHT) return;
        const [y, z] = [(r + 0.5) * ROW_HEIGHT, (c + 0.5) * ROW_HEIGHT];
        const curve = `M0 ${y} C${width * 0.45} ${y} ${width * 0.55} ${z} ${width} ${z}`;
        paths.push(
          makeSvg("path", {
            d: curve,
            "stroke-opacity": weight.toFixed(3),
            "stroke-width": (0.75 + 2.75 * weight).toFixed(2),
          }),
        );
      });
      return makeSvg("g", {}, ...paths);
    });
    this.picture.replaceChildren(...this.groups);
  }

  #highlight() {
    const { columns, values, row } = this.view;
    const at = this.pointed ?? row;
    this.groups.forEach((group, i) => setAttribute(group, "data-lit", i === at));
    [...this.left.children].forEach((button, i) => {
      setAttribute(button, "data-lit", i === at);
      setAttribute(button, "aria-pressed", i === row ? "true" : "false");
    });
    [...this.right.children].forEach((label, c) => {
      const weight = values[at * columns.length + c];
      label.firstChild.textContent = formatWeight(weight);
      setAttribute(label, "data-lit", weight >= 0.1);
    });
  }
}
