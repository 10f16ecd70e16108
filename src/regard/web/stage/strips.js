// Strips of numbers: a vector as a row of little bars, up for positive, down for negative. Pointing at one
// number shows the same dimension in every strip, so that sums and products can be followed.

import { Canvas, onWidth, rgba } from "./canvas.js";
import { make, put, word, write } from "./dom.js";
import { largest, shown } from "./numbers.js";

const HEIGHT = 22;
const WIDEST = 16; // px a number: a strip of few numbers stays a strip

function paintBars(pen, width, height, colour, { values, top, side, groups, bold }, marked) {
  const step = width / values.length;
  const middle = height / 2;
  const ink = colour(side === "target" ? "target" : side === "attention" ? "attention" : "ink");
  pen.fillStyle = rgba(colour("ink"), 0.14);
  pen.fillRect(0, middle - 0.5, width, 1);
  if (groups > 1) { for (let i = 1; i < groups; i += 1) pen.fillRect(Math.round((width * i) / groups), 0, 1, height); }
  if (marked !== null) {
    pen.fillStyle = rgba(colour("attention"), 0.28);
    pen.fillRect(marked * step - 0.5, 0, Math.max(step, 2) + 1, height);
  }
  pen.fillStyle = rgba(ink, bold ? 1 : 0.78);
  const gap = step > 3 ? 1 : 0;
  for (let i = 0; i < values.length; i += 1) {
    const size = (values[i] / top) * (middle - 1);
    pen.fillRect(i * step, size >= 0 ? middle - size : middle, Math.max(step - gap, 0.6), Math.abs(size));
  }
}

class Strip {
  constructor(owner) {
    this.owner = owner;
    this.row = null;
    this.label = make("span", { class: "strip-label" });
    this.canvas = new Canvas("strip-bars", (pen, w, h, colour) => paintBars(pen, w, h, colour, this.row, owner.marked));
    this.note = make("span", { class: "strip-note number" });
    this.bars = make("span", { class: "strip-place" }, this.canvas.element);
    this.element = make("div", { class: "strip" }, this.label, this.bars, this.note);
  }

  show(row, top) {
    this.row = { ...row, top: row.top ?? top };
    const key = `${row.label}\u0000${row.side}`;
    if (key !== this.key) {
      this.label.replaceChildren(row.sign ? make("span", { class: "sign" }, row.sign) : "", word(row.label, row.side));
    }
    this.key = key;
    this.label.title = row.label;
    put(this.element, "data-bold", row.bold);
    put(this.element, "data-special", row.special);
    this.paint();
  }

  paint() {
    const { row, owner } = this;
    write(
      this.note,
      owner.marked === null ? (row.note ?? "") : shown(row.values[Math.min(owner.marked, row.values.length - 1)]),
    );
    if (owner.width) this.canvas.resize(Math.min(owner.width, WIDEST * row.values.length), row.height ?? HEIGHT);
  }
}

/** rows: [{label, side, values, note, sign, bold, groups, special, height, top}], all of one length; `top` is a row's own scale. */
export class Strips {
  constructor({ onPick = null, describe = null } = {}) {
    this.marked = null;
    this.width = 0;
    this.strips = [];
    this.onPick = onPick;
    this.describe = describe;
    this.body = make("div", { class: "strips-body" });
    this.readout = make("p", { class: "readout", "aria-live": "polite" });
    this.element = make(
      "div",
      {
        class: "strips",
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

  update(rows, { label, hint, top = null, describe = this.describe }) {
    this.describe = describe;
    this.hint = hint;
    put(this.element, "aria-label", label);
    while (this.strips.length < rows.length) {
      this.strips.push(new Strip(this));
      this.body.append(this.strips.at(-1).element);
    }
    while (this.strips.length > rows.length) this.strips.pop().element.remove();
    this.length = rows[0]?.values.length ?? 0;
    this.element.style.setProperty("--strip-most", `${WIDEST * this.length}px`);
    if (this.marked !== null && this.marked >= this.length) this.marked = null;
    const highest = top ?? (Math.max(...rows.map((row) => largest(row.values))) || 1);
    rows.forEach((row, i) => this.strips[i].show(row, highest));
    this.#fit();
    this.#say();
  }

  mark(dimension) {
    if (this.marked === dimension) return;
    this.marked = dimension;
    for (const strip of this.strips) strip.paint();
    this.#say();
  }

  #fit() {
    const width = this.strips[0]?.bars.clientWidth ?? 0;
    if (!width || width === this.width) return;
    this.width = width;
    for (const strip of this.strips) strip.paint();
  }

  #say() {
    write(this.readout, this.marked === null ? (this.hint ?? "") : (this.describe?.(this.marked) ?? ""));
  }

  #dimension(event) {
    const box = this.strips[0].canvas.element.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width;
    return at < 0 || at >= 1 ? null : Math.floor(at * this.length);
  }

  #point(event) {
    if (this.strips.length) this.mark(this.#dimension(event));
  }

  #pick(event) {
    const index = this.strips.findIndex((strip) => strip.element.contains(event.target));
    if (index >= 0) this.onPick?.(index);
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !this.length) return;
    event.preventDefault();
    event.stopPropagation();
    this.mark(
      this.marked === null ? (step > 0 ? 0 : this.length - 1) : (this.marked + step + this.length) % this.length,
    );
  }
}
