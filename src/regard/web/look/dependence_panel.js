// What each word of a translation depends on, in words: attention, gradients and words left out side by side, and how far
// they agree.

import { make, setAttribute, table, wordElement } from "../dom.js";
import { decimal, formatNumber, formatWeight } from "../format.js";
import { language, onLanguage, t } from "../texts/texts.js";
import { joinPieces } from "../words.js";
import { headTable } from "./head_detail.js";
import { HeatMap } from "./heat_map.js";
import { decodeArray } from "./look_data.js";
import { maxAbs } from "./math.js";
import { Panel } from "./panel.js";

export class DependencePanel {
  #look;

  /**
   * @param {HTMLElement} element
   * @param {{ look: any }} options a look with `dependence`
   */
  constructor(element, { look }) {
    this.element = element;
    element.classList.add("look", "depends");
    this.#look = look;
    this.#draw();
    onLanguage(() => this.#draw());
  }

  setLook(/** @type {any} */ look) {
    this.#look = look;
    this.#draw();
  }

  #draw() {
    const views = measuresOf(this.#look);
    setAttribute(this.element, "lang", language());
    this.element.replaceChildren(
      make("p", { class: "note" }, t(views.attention ? "look.depends.beside" : "look.depends.how")),
      make("div", { class: "depends-maps" }, Object.entries(views).map((entry) => measurePanel(this.#look, ...entry))),
      make("p", { class: "note" }, t("look.depends.agreement")),
      make("div", { class: "table-scroll", tabindex: 0 }, agreementTable(this.#look)),
    );
  }
}

/**
 * The numbers between words, row-major, by the name of the measure; `attention` only if the model has it.
 * @param {any} look
 * @returns {Record<string, Float32Array>}
 */
function measuresOf({ model, source, target, attentions, dependence }) {
  const rows = target.outputs.words;
  const join = (/** @type {ArrayLike<number>} */ numbers) =>
    joinPieces(numbers, source.pieces.length, rows, source.words);
  const cross = attentions.filter((/** @type {any} */ { attention }) => attention === "cross");
  const measures = cross.length ? { attention: join(alignment(cross, model.alignment_head)) } : {};
  return { ...measures, gradient: join(shares(dependence.gradients)), left_out: sums(dependence.left_out, rows) };
}

/** The weights of the head that aligns words, else the mean of the last layer. */
function alignment(/** @type {any[]} */ layers, /** @type {any} */ head) {
  const weights = decodeArray(layers.at(head?.layer ?? -1).weights);
  if (head) return weights.at(head.head);
  const nHeads = weights.shape[0];
  return weights.at(0).map((_, i) => {
    let total = 0;
    for (let number = 0; number < nHeads; number += 1) total += weights.at(number)[i];
    return total / nHeads;
  });
}

/** Each row divided by its sum. */
function shares(/** @type {any} */ array) {
  const { shape, numbers } = decodeArray(array);
  const totals = Array.from(
    { length: shape[0] },
    (_, row) => numbers.subarray(row * shape[1], (row + 1) * shape[1]).reduce((total, value) => total + value, 0),
  );
  return numbers.map((value, i) => value / (totals[Math.floor(i / shape[1])] || 1));
}

/** Each row the sum of the rows of a word's pieces. */
function sums(/** @type {any} */ array, /** @type {{ pieces: number[] }[]} */ words) {
  const { shape, numbers } = decodeArray(array);
  const joined = new Float32Array(words.length * shape[1]);
  words.forEach(({ pieces }, row) => {
    for (const piece of pieces) {
      for (let c = 0; c < shape[1]; c += 1) joined[row * shape[1] + c] += numbers[piece * shape[1] + c];
    }
  });
  return joined;
}

function measurePanel(/** @type {any} */ look, /** @type {string} */ name, /** @type {Float32Array} */ values) {
  const label = t(`look.depends.${name}`);
  const view = {
    rows: look.target.outputs.words,
    columns: look.source.words,
    sides: { rows: "target", columns: "source" },
    values,
    visible: null,
    row: 0,
    column: 0,
    label,
    ...(name === "left_out" ? { min: -maxAbs(values), max: maxAbs(values) } : { min: 0, max: 1 }),
    format: name === "left_out" ? formatNumber : formatWeight,
  };
  const map = new HeatMap({ onPick: (cell) => map.update({ ...view, ...cell }) });
  const panel = new Panel("map", map.element);
  map.update(view);
  panel.update(label, () => headTable(view));
  return panel.element;
}

/** Kendall's τ per word, and the mean in the last row. */
function agreementTable({ target, dependence }) {
  const head = dependence.agreement.map(({ between }) => between.map((name) => t(`look.depends.short.${name}`)));
  const rows = target.outputs.words.flatMap((/** @type {any} */ word, /** @type {number} */ i) =>
    word.special
      ? []
      : [[wordElement(word.text, "target"), ...dependence.agreement.map(({ by_word }) => decimal(by_word[i]))]]
  );
  rows.push([t("look.depends.mean"), ...dependence.agreement.map(({ mean }) => decimal(mean))]);
  return table(t("look.depends.agreement"), [t("look.depends.word"), ...head.map((names) => names.join(" – "))], rows);
}
