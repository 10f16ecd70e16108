// The calculation of one attention weight: q · k, ÷ √d_k, the mask, the softmax, × v, with the model's own numbers.

import { isolated, make, numberElement, wordElement } from "../dom.js";
import { formatNumber, formatWeight } from "../format.js";
import { t } from "../texts/texts.js";
import { maxAbs } from "./math.js";
import { VectorBars } from "./vector_bars.js";

/** @import { LookData } from "./look_data.js" */
/** @import { StepContext } from "./look_panel.js" */
/** @import { Place } from "./place.js" */

/** The pieces with the largest weight of a word pair: the model computes with pieces. */
function strongestPieces(/** @type {LookData} */ data, /** @type {Place} */ place) {
  const { attention, layer, head } = place;
  const row = data.rows(attention, place.level)[place.row];
  const column = data.columns(attention, place.level)[place.column];
  const weights = data.attention(attention, layer, "weights"); // as computed: a switch must not change the pair
  let best = { i: row.pieces[0], j: column.pieces[0] };
  for (const i of row.pieces) {
    for (const j of column.pieces) if (weights.at(head, i, j) > weights.at(head, best.i, best.j)) best = { i, j };
  }
  return { ...best, row, column, joined: row.pieces.length * column.pieces.length > 1 };
}

/**
 * All numbers behind one weight.
 * @param {LookData} data
 * @param {Place} place
 */
function cellNumbers(data, place) {
  const { attention, layer, head, level } = place;
  const pieces = strongestPieces(data, place);
  const { i, j } = pieces;
  const { scores, scaled, visible, weights } = data.row(place, i);
  const isVisible = (key) => visible === null || visible[key] > 0;
  const vector = (name, at) => data.attention(attention, layer, name).at(head, at);
  return {
    ...pieces,
    hidden: !isVisible(j),
    total: scaled.reduce((total, x, key) => (isVisible(key) ? total + Math.exp(x) : total), 0), // of the softmax
    divides: data.dividesAt(place),
    q: vector("q", i),
    k: vector("k", j),
    v: vector("v", j),
    score: scores[j],
    scaled: scaled[j],
    weight: weights[j],
    entry: data.weights(place, level)[place.row * data.columns(attention, level).length + place.column],
  };
}

/** @typedef {ReturnType<typeof cellNumbers>} CellNumbers */

/**
 * One line of the calculation.
 * @param {string} name
 * @param {any} formula
 * @param {string | HTMLElement} result
 * @param {string} key for tests
 */
function line(name, formula, result, key) {
  const value = make("b", { "data-number": key }, result);
  return make(
    "div",
    { class: "sum-step" },
    make("dt", {}, name),
    make("dd", { class: "number" }, make("span", { class: "formula" }, formula), value),
  );
}

export class Cell {
  constructor() {
    this.title = make("p", { class: "cell-title" });
    this.lines = make("dl", { class: "sum" });
    this.note = make("p", { class: "hint" });
    this.vectors = new VectorBars();
    this.element = make("section", { class: "cell" }, this.title, this.lines, this.note, this.vectors.element);
  }

  /** @param {StepContext} context */
  update({ data, place }) {
    const numbers = cellNumbers(data, place);
    const query = data.querySide(place.attention).pieces[numbers.i].text;
    const key = data.keySide(place.attention).pieces[numbers.j].text;
    this.title.replaceChildren(...t("look.cellTitle", wordElement(query), wordElement(key)));
    this.lines.replaceChildren(...this.#lines(data, numbers));
    this.note.textContent = numbers.joined
      ? t("look.largestPair", isolated(numbers.row.text), isolated(numbers.column.text), formatWeight(numbers.entry))
      : "";
    this.note.hidden = !numbers.joined;
    this.#showVectors(data, numbers);
  }

  #lines(/** @type {LookData} */ data, /** @type {CellNumbers} */ numbers) {
    const { q, k, score, scaled, hidden, total, weight, divides } = numbers;
    const { d_k, attention } = data.model;
    const exact = (/** @type {number} */ value, format = formatNumber) => numberElement(value, format(value));
    const firstTerms = Array.from(q.slice(0, 2), (x, i) => `${formatNumber(x)} × ${formatNumber(k[i])}`).join(" + ");
    const dots = `${firstTerms}${d_k > 2 ? t("look.moreTerms", d_k - 2) : ""} =`;
    const exponent = make("sup", {}, hidden ? "−∞" : formatNumber(scaled));
    return [
      attention === "additive"
        ? line("vᵀ tanh(q + k)", t("look.additiveSum", d_k), exact(score), "score")
        : line("q · k", dots, exact(score), "score"),
      divides ? line("÷ √d_k", `${formatNumber(score)} ÷ √${d_k} =`, exact(scaled), "scaled") : "",
      hidden ? line(t("look.mask"), t("look.maskHides"), "−∞", "mask") : "",
      line("softmax", ["e", exponent, " ÷ ", exact(total), " ="], exact(weight, formatWeight), "weight"),
      line("× v", t("look.timesValue", formatWeight(weight), d_k), "", "times"),
    ].filter(Boolean);
  }

  #showVectors(/** @type {LookData} */ data, /** @type {CellNumbers} */ { q, k, v }) {
    const additive = data.model.attention === "additive";
    const combined = Float32Array.from(q, (x, i) => (additive ? Math.tanh(x + k[i]) : x * k[i]));
    const [top, height] = [Math.max(maxAbs(q), maxAbs(k), maxAbs(v)) || 1, 26];
    const label = additive ? "tanh(q + k)" : "q × k";
    const rows = [
      { label: "q", values: q, top, height },
      { label: "k", values: k, top, height },
      { label, values: combined, top: maxAbs(combined) || 1, height, side: "attention", bold: true },
      { label: "v", values: v, top, height },
    ];
    this.vectors.update(rows, {
      label: t("look.cellVectors"),
      hint: t("look.pointAtNumber"),
      describe: (i) => {
        const [x, y, result] = [formatNumber(q[i]), formatNumber(k[i]), formatNumber(combined[i])];
        return additive ? `${i + 1}: tanh(${x} + ${y}) = ${result}` : `${i + 1}: ${x} × ${y} = ${result}`;
      },
    });
  }
}
