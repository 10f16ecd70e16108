// x · W + bias = q as three matrices in their true shapes, with one row of x and one column of W walked through.

import { isolated, make, numberElement } from "../dom.js";
import { formatNumber } from "../format.js";
import { t } from "../texts/texts.js";
import { Canvas, rgba } from "./canvas.js";
import { Choice, Slider } from "./choice.js";
import { decodeArray } from "./look_data.js";
import { dot, maxAbs } from "./math.js";

/** @import { Tensor } from "./look_data.js" */
/** @import { StepContext } from "./look_panel.js" */

const MAX_SIDE = 300; // px, of the longest side
const MAX_NUMBER = 3; // px, of one number

/** One matrix: a square per number, blue if positive and grey if negative. */
class MatrixPicture {
  constructor() {
    this.canvas = new Canvas("matrix-picture", (pen, _w, _h, colour) => this.#paint(pen, colour));
    this.name = make("figcaption", { class: "number" });
    this.element = make("figure", { class: "matrix" }, this.name, this.canvas.element);
  }

  /**
   * @param {string} name
   * @param {Tensor} matrix
   * @param {number} size px of one number
   * @param {{ row?: number, column?: number }} marked
   */
  show(name, matrix, size, marked) {
    Object.assign(this, { matrix, size, marked });
    const [rows, columns] = matrix.shape;
    this.name.textContent = `${name}: ${rows} × ${columns}`;
    this.canvas.resize(columns * size, rows * size);
  }

  #paint(pen, colour) {
    const { matrix, size, marked } = /** @type {any} */ (this);
    const [rows, columns] = matrix.shape;
    const [accent, ink, top] = [colour("attention"), colour("ink"), maxAbs(matrix.numbers) || 1];
    matrix.numbers.forEach((x, i) => {
      pen.fillStyle = rgba(x < 0 ? ink : accent, Math.sqrt(Math.abs(x) / top));
      pen.fillRect((i % columns) * size, Math.floor(i / columns) * size, size, size);
    });
    pen.strokeStyle = rgba(colour("target"), 1);
    pen.lineWidth = 1.5;
    const { row, column } = marked;
    const [x, width] = column === undefined ? [0, columns] : [column, 1];
    const [y, height] = row === undefined ? [0, rows] : [row, 1];
    pen.strokeRect(x * size, y * size, Math.max(width * size, 2), Math.max(height * size, 2));
  }
}

export class MatrixProduct {
  #key = "";
  #parts = null; // { q, k, v }, each with x, weight, bias

  constructor() {
    this.vectors = new Choice({ name: "vector", onPick: (vector) => this.context?.go({ vector }) });
    this.slider = new Slider({ name: "unit", onSlide: (unit) => this.context?.go({ unit }) });
    this.pictures = [new MatrixPicture(), new MatrixPicture(), new MatrixPicture()];
    const [x, weight, result] = this.pictures.map(({ element }) => element);
    const sign = (text) => make("span", { class: "matrix-sign", "aria-hidden": "true" }, text);
    this.sum = make("p", { class: "readout number" });
    this.element = make(
      "section",
      { class: "matrix-product" },
      this.vectors.element,
      make("div", { class: "matrices" }, x, sign("·"), weight, sign("="), result),
      this.slider.element,
      this.sum,
    );
  }

  /** @param {StepContext} context */
  async update(context) {
    this.context = context;
    const { data, place, fetchProjection } = context;
    this.element.hidden = !fetchProjection || !this.#parts;
    if (!fetchProjection) return;
    const { attention, layer, head } = place;
    const key = JSON.stringify([
      data.look.model.name,
      data.look.source.text,
      data.look.target.text,
      attention,
      layer,
      head,
    ]);
    if (key !== this.#key) {
      this.#key = key;
      const parts = await fetchProjection(data.look, { attention, layer, head }).catch(() => null);
      if (key !== this.#key) return;
      this.#parts = parts;
    }
    this.element.hidden = !this.#parts;
    if (this.#parts) this.#draw();
  }

  #draw() {
    const { data, place } = /** @type {StepContext} */ (this.context);
    const { vector, attention, level } = place;
    const [x, weight, bias] = ["x", "weight", "bias"].map((name) => decodeArray(this.#parts[vector][name]));
    const isQuery = vector === "q";
    const unit = (isQuery ? data.rows : data.columns).call(data, attention, level)[isQuery ? place.row : place.column];
    const row = unit.pieces[0];
    const column = Math.min(place.unit ?? 0, weight.shape[1] - 1);
    const result = data.attention(attention, place.layer, vector).at(place.head);
    const [n, d_k] = [x.shape[0], weight.shape[1]];
    const size = Math.min(MAX_NUMBER, MAX_SIDE / weight.shape[0]);
    this.vectors.update(t("look.product"), ["q", "k", "v"].map((value) => ({ value, text: value })), vector);
    this.pictures[0].show("x", x, size, { row });
    this.pictures[1].show(`W_${vector.toUpperCase()}`, weight, size, { column });
    this.pictures[2].show(vector, { shape: [n, d_k], numbers: result, at: x.at }, size, { row, column });
    this.slider.update(t("look.productColumn"), d_k - 1, column, String(column + 1));
    this.#showSum(unit, vector, x.at(row), weight, bias.numbers[column], column, result[row * d_k + column]);
  }

  /** One number of q: the sum over a row of x and a column of W. */
  #showSum(unit, vector, x, weight, bias, column, result) {
    const w = Float32Array.from(x, (_, i) => weight.at(i, column));
    const terms = Array.from(x.slice(0, 2), (value, i) => `${formatNumber(value)} × ${formatNumber(w[i])}`).join(" + ");
    const total = dot(x, w);
    this.sum.replaceChildren(
      t("look.productSum", isolated(unit.text), vector, column + 1),
      `${terms}${t("look.moreTerms", x.length - 2)} = `,
      numberElement(total, formatNumber(total)),
      t("look.productBias", formatNumber(bias)),
      make("b", {}, numberElement(result, formatNumber(result))),
    );
  }
}
