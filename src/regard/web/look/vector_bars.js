// Vectors as rows of small bars, up for positive and down for negative numbers. Pointing at a number marks the same
// dimension in every row, so that sums and products can be followed.

import { make, setAttribute, setText, wordElement } from "../dom.js";
import { formatNumber } from "../format.js";
import { Canvas, onWidth, rgba } from "./canvas.js";
import { maxAbs } from "./math.js";

/**
 * @typedef {object} VectorRow
 * @property {string} label
 * @property {ArrayLike<number> & Iterable<number>} values all rows have the same length
 * @property {string | null} [side] "source", "target" or "attention", for the colour
 * @property {string} [note] beside the bars
 * @property {string} [sign] before the label
 * @property {boolean} [bold]
 * @property {number} [groups] number of groups (heads), separated by lines
 * @property {boolean} [special] a special token
 * @property {number} [height] px
 * @property {number} [top] the value of a full bar; by default the largest of all rows
 */

const HEIGHT = 22; // px
const MAX_BAR_WIDTH = 16; // px per number

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {number} width
 * @param {number} height
 * @param {(name: string) => number[]} colour
 * @param {VectorRow} row
 * @param {number | null} marked
 */
function paintBars(pen, width, height, colour, { values, top, side, groups, bold }, marked) {
  const step = width / values.length;
  const middle = height / 2;
  const barColour = colour(side === "target" || side === "attention" ? side : "ink");
  pen.fillStyle = rgba(colour("ink"), 0.14);
  pen.fillRect(0, middle - 0.5, width, 1);
  if (groups > 1) { for (let i = 1; i < groups; i += 1) pen.fillRect(Math.round((width * i) / groups), 0, 1, height); }
  if (marked !== null) {
    pen.fillStyle = rgba(colour("attention"), 0.28);
    pen.fillRect(marked * step - 0.5, 0, Math.max(step, 2) + 1, height);
  }
  pen.fillStyle = rgba(barColour, bold ? 1 : 0.78);
  const gap = step > 3 ? 1 : 0;
  for (let i = 0; i < values.length; i += 1) {
    const size = (values[i] / top) * (middle - 1);
    pen.fillRect(i * step, size >= 0 ? middle - size : middle, Math.max(step - gap, 0.6), Math.abs(size));
  }
}

/** One vector. */
class VectorRowView {
  /** @param {VectorBars} owner */
  constructor(owner) {
    this.owner = owner;
    /** @type {VectorRow | null} */
    this.row = null;
    this.label = make("span", { class: "vector-label" });
    this.canvas = new Canvas(
      "vector-canvas",
      (pen, w, h, colour) => paintBars(pen, w, h, colour, this.row, owner.marked),
    );
    this.note = make("span", { class: "vector-note number" });
    this.area = make("span", { class: "vector-area" }, this.canvas.element);
    this.element = make("div", { class: "vector" }, this.label, this.area, this.note);
  }

  /**
   * @param {VectorRow} row
   * @param {number} top
   */
  show(row, top) {
    this.row = { ...row, top: row.top ?? top };
    const key = `${row.label}\u0000${row.side}`;
    if (key !== this.key) {
      const sign = row.sign ? make("span", { class: "sign" }, row.sign) : "";
      this.label.replaceChildren(sign, wordElement(row.label, row.side));
    }
    this.key = key;
    this.label.title = row.label;
    setAttribute(this.element, "data-bold", row.bold);
    setAttribute(this.element, "data-special", row.special);
    this.paint();
  }

  paint() {
    const { row, owner } = this;
    const note = owner.marked === null
      ? (row.note ?? "")
      : formatNumber(row.values[Math.min(owner.marked, row.values.length - 1)]);
    setText(this.note, note);
    if (owner.width) {
      this.canvas.resize(Math.min(owner.width, MAX_BAR_WIDTH * row.values.length), row.height ?? HEIGHT);
    }
  }
}

export class VectorBars {
  /** @param {{ onPick?: ((row: number) => void) | null }} [callbacks] */
  constructor({ onPick = null } = {}) {
    /** @type {number | null} */
    this.marked = null; // the dimension pointed at
    this.width = 0;
    this.length = 0;
    /** @type {VectorRowView[]} */
    this.rows = [];
    this.onPick = onPick;
    this.body = make("div", { class: "vectors-body" });
    this.readout = make("p", { class: "readout", "aria-live": "polite" });
    this.element = make(
      "div",
      {
        class: "vectors",
        role: "group",
        tabindex: 0,
        "data-arrows": true,
        onkeydown: (event) => this.#key(event),
        onblur: () => this.mark(null),
      },
      this.body,
      this.readout,
    );
    this.body.addEventListener("pointermove", (event) => this.#point(event));
    this.body.addEventListener("pointerdown", (event) => this.#point(event));
    this.body.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.mark(null));
    this.body.addEventListener("click", (event) => this.#pick(event));
    onWidth(this.element, () => this.#fit());
  }

  /**
   * @param {VectorRow[]} rows
   * @param {{ label: string, hint: string, describe: (dimension: number) => string }} options the readout shows the hint,
   *   or the description of the dimension that is pointed at
   */
  update(rows, { label, hint, describe }) {
    this.describe = describe;
    this.hint = hint;
    setAttribute(this.element, "aria-label", label);
    while (this.rows.length < rows.length) {
      this.rows.push(new VectorRowView(this));
      this.body.append(this.rows.at(-1).element);
    }
    while (this.rows.length > rows.length) this.rows.pop().element.remove();
    this.length = rows[0]?.values.length ?? 0;
    this.element.style.setProperty("--vector-width", `${MAX_BAR_WIDTH * this.length}px`);
    if (this.marked !== null && this.marked >= this.length) this.marked = null;
    const top = Math.max(...rows.map((row) => maxAbs(row.values))) || 1;
    rows.forEach((row, i) => this.rows[i].show(row, top));
    this.#fit();
    this.#showReadout();
  }

  /** @param {number | null} dimension */
  mark(dimension) {
    if (this.marked === dimension) return;
    this.marked = dimension;
    for (const row of this.rows) row.paint();
    this.#showReadout();
  }

  #fit() {
    const width = this.rows[0]?.area.clientWidth ?? 0;
    if (!width || width === this.width) return;
    this.width = width;
    for (const row of this.rows) row.paint();
  }

  #showReadout() {
    setText(this.readout, this.marked === null ? (this.hint ?? "") : (this.describe?.(this.marked) ?? ""));
  }

  #point(/** @type {PointerEvent} */ event) {
    if (!this.rows.length) return;
    const box = this.rows[0].canvas.element.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    this.mark(x < 0 || x >= 1 ? null : Math.floor(x * this.length));
  }

  #pick(/** @type {Event} */ event) {
    const index = this.rows.findIndex((row) => row.element.contains(/** @type {Node} */ (event.target)));
    if (index >= 0) this.onPick?.(index);
  }

  #key(/** @type {KeyboardEvent} */ event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || !this.length) return;
    event.preventDefault();
    event.stopPropagation();
    const first = move > 0 ? 0 : this.length - 1;
    this.mark(this.marked === null ? first : (this.marked + move + this.length) % this.length);
  }
}
