// A heat map of one head: rows (queries) attend to columns (keys).

import { make, setAttribute, wordElement } from "../dom.js";
import { Canvas, onWidth, rgba } from "./canvas.js";
import { argmax } from "./math.js";

/** @import { HeadView } from "./head_detail.js" */
/** @typedef {{ row: number, column: number }} MapCell */

const CELL = { min: 12, max: 34, maxIfFew: 44 }; // px; a longer sentence scrolls, with legible labels

export class HeatMap {
  /** @param {{ onPick: (cell: MapCell) => void, onPoint?: (cell: MapCell | null) => void }} callbacks */
  constructor({ onPick, onPoint = () => {} }) {
    this.onPick = onPick;
    this.onPoint = onPoint;
    /** @type {MapCell | null} */
    this.pointed = null;
    this.canvas = new Canvas("heat-cells", (pen, w, h, colour) => this.#paint(pen, w, h, colour));
    this.columnLabels = make("div", { class: "heat-columns", "aria-hidden": "true" });
    this.rowLabels = make("div", { class: "heat-rows", "aria-hidden": "true" });
    this.cells = make("div", { class: "heat-place" }, this.canvas.element);
    this.grid = make(
      "div",
      {
        class: "heat-grid",
        tabindex: 0,
        role: "img",
        "data-arrows": true,
        onkeydown: (event) => this.#key(event),
      },
      make("span"),
      this.columnLabels,
      this.rowLabels,
      this.cells,
    );
    this.element = make("div", { class: "heat" }, this.grid);
    this.cells.addEventListener("pointermove", (event) => this.#point(this.#cellAt(event)));
    this.cells.addEventListener("pointerleave", () => this.#point(null));
    this.cells.addEventListener("click", (event) => this.#pick(this.#cellAt(event)));
    onWidth(this.element, () => this.#fit());
  }

  /** @param {HeadView} view */
  update(view) {
    const before = this.view;
    this.view = view;
    this.pointed = null;
    if (before?.rows !== view.rows || before?.columns !== view.columns) this.#buildLabels();
    setAttribute(this.grid, "aria-label", `${view.label}. ${this.#describe()}`);
    this.#fit();
    this.#highlight();
  }

  /** The strongest column of each row, for screen readers. */
  #describe() {
    const { rows, columns, values, visible, format } = this.view;
    return rows
      .map((row, r) => {
        const line = values.subarray(r * columns.length, (r + 1) * columns.length);
        const best = argmax(visible ? line.map((x, c) => (visible[r * columns.length + c] ? x : -Infinity)) : line);
        return `${row.text} → ${columns[best].text} ${format(line[best])}`;
      })
      .join("; ");
  }

  #buildLabels() {
    const { rows, columns, sides } = this.view;
    this.rowLabels.replaceChildren(...rows.map((unit) => this.#labelElement(unit, sides.rows)));
    this.columnLabels.replaceChildren(...columns.map((unit) => this.#labelElement(unit, sides.columns)));
  }

  #labelElement(unit, side) {
    const label = make("span", { class: "heat-label", title: unit.text }, wordElement(unit.text, side));
    setAttribute(label, "data-special", unit.special);
    return label;
  }

  #fit() {
    if (!this.view || !this.element.clientWidth) return;
    const { rows, columns } = this.view;
    const labels = this.rowLabels.offsetWidth;
    const available = this.element.clientWidth - labels - 12; // less the gap and the focus ring
    const max = columns.length <= 6 ? CELL.maxIfFew : CELL.max;
    this.size = Math.max(CELL.min, Math.min(max, Math.floor(available / columns.length)));
    this.element.style.setProperty("--cell", `${this.size}px`);
    this.canvas.resize(this.size * columns.length, this.size * rows.length);
  }

  #paint(pen, _width, _height, colour) {
    const { columns, values, max, visible, row, column } = this.view;
    const size = this.size;
    const accent = colour("attention");
    const ink = colour("ink");
    for (let i = 0; i < values.length; i += 1) {
      const x = (i % columns.length) * size;
      const y = Math.floor(i / columns.length) * size;
      if (visible && !visible[i]) this.#hatch(pen, x, y, size, rgba(ink, 0.22));
      else {
        pen.fillStyle = rgba(ink, 0.035);
        pen.fillRect(x, y, size - 1, size - 1);
        pen.fillStyle = rgba(values[i] < 0 ? ink : accent, Math.min(1, Math.abs(values[i]) / (max || 1)));
        pen.fillRect(x, y, size - 1, size - 1);
      }
    }
    this.#frame(pen, rgba(ink, 0.35), 0, row * size, columns.length * size, size);
    if (this.pointed) this.#frame(pen, rgba(ink, 0.6), this.pointed.column * size, this.pointed.row * size, size, size);
    this.#frame(pen, rgba(ink, 1), column * size, row * size, size, size, 2);
  }

  #hatch(pen, x, y, size, style) {
    pen.strokeStyle = style;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x + 1, y + size - 2);
    pen.lineTo(x + size - 2, y + 1);
    pen.stroke();
  }

  #frame(pen, style, x, y, width, height, thick = 1) {
    pen.strokeStyle = style;
    pen.lineWidth = thick;
    pen.strokeRect(x + thick / 2 - 0.5, y + thick / 2 - 0.5, width - thick, height - thick);
  }

  #cellAt(event) {
    const box = this.canvas.element.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size);
    const row = Math.floor((event.clientY - box.top) / this.size);
    const inside = row >= 0 && column >= 0 && row < this.view.rows.length && column < this.view.columns.length;
    return inside ? { row, column } : null;
  }

  #point(cell) {
    if (cell?.row === this.pointed?.row && cell?.column === this.pointed?.column) return;
    this.pointed = cell;
    this.canvas.paint();
    this.#highlight();
    this.onPoint(cell);
  }

  #highlight() {
    const at = this.pointed ?? this.view;
    [...this.rowLabels.children].forEach((label, i) => setAttribute(label, "data-lit", i === at.row));
    [...this.columnLabels.children].forEach((label, i) => setAttribute(label, "data-lit", i === at.column));
  }

  #pick(cell) {
    if (cell) this.onPick(cell);
  }

  #key(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const { rows, columns, row, column } = this.view;
    this.onPick({
      row: Math.min(rows.length - 1, Math.max(0, row + step[0])),
      column: Math.min(columns.length - 1, Math.max(0, column + step[1])),
    });
  }
}
