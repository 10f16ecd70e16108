// Steps 9 to 11: residual connection and normalisation, feed-forward, the next layer.

import { isolated, make, setAttribute, table, wordElement } from "../../dom.js";
import { formatNumber } from "../../format.js";
import { t } from "../../texts/texts.js";
import { Canvas, onWidth, rgba } from "../canvas.js";
import { Choice, unitOptions } from "../choice.js";
import { sideOfStack, stackOf } from "../look_data.js";
import { argmax, cosine, mean, norm, standardDeviation } from "../math.js";
import { Panel } from "../panel.js";
import { VectorBars } from "../vector_bars.js";

/** @import { StepContext } from "../look_panel.js" */
/** @import { VectorRow } from "../vector_bars.js" */

/**
 * The stack, words and sub-layer of a place; the rows of cross attention are the decoder's positions.
 * @param {StepContext} context
 */
function selectionOf({ data, place }) {
  const stack = stackOf(place.attention);
  const side = sideOfStack(stack);
  const units = data.rows(place.attention, place.level);
  const attentionPart = place.attention === "cross" ? "cross" : "self";
  return {
    stack,
    side,
    units,
    piece: units[place.row].pieces[0],
    part: place.part === "feed_forward" ? "feed_forward" : attentionPart,
  };
}

/** A step about one word, with a choice of the word above. */
class WordStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.words = new Choice({ name: "row", kind: "sentence", onPick: (row) => this.context.go({ row: Number(row) }) });
  }

  chooseWord(context) {
    this.context = context;
    const { units, side } = selectionOf(context);
    this.words.update(t("look.word"), unitOptions(units, side), context.place.row);
  }
}

/** The length of each word's vector before the sub-layer, and of what the sub-layer adds. */
class Lengths {
  /** @param {{ onPick: (row: number) => void }} callbacks */
  constructor({ onPick }) {
    this.onPick = onPick;
    this.body = make("div", { class: "bars lengths" });
    this.panel = new Panel("lengths", this.body);
    this.element = this.panel.element;
  }

  /** @param {StepContext} context */
  update(context) {
    const { data, place } = context;
    const { stack, side, units, part } = selectionOf(context);
    const of = (name) => units.map((unit) => data.sublayer(stack, place.layer, part, name).at(unit.pieces[0]));
    const [before, added, after] = [of("norm_before"), of("norm_added"), of("norm_after")];
    const top = Math.max(...before, ...added, ...after);
    const head = make(
      "div",
      { class: "bar-line bar-head" },
      make("span"),
      make("span", {}, make("span", { class: "swatch of-ink" }), t("look.before")),
      make("span", {}, make("span", { class: "swatch of-attention" }), t("look.added")),
    );
    const lines = units.map((unit, i) => {
      const line = make(
        "button",
        { type: "button", class: "bar-line plain", onclick: () => this.onPick(i) },
        wordElement(unit.text, side),
        this.#bar(before[i], top, "ink"),
        this.#bar(added[i], top, "attention"),
      );
      setAttribute(line, "aria-pressed", i === place.row ? "true" : "false");
      return line;
    });
    this.body.replaceChildren(head, ...lines);
    this.panel.update(
      t("look.lengthsCaption"),
      () =>
        table(
          t("look.lengthsCaption"),
          [t("look.word"), t("look.before"), t("look.added"), t("look.after")],
          units.map((
            unit,
            i,
          ) => [wordElement(unit.text, side), formatNumber(before[i]), formatNumber(added[i]), formatNumber(after[i])]),
        ),
    );
  }

  #bar(value, top, side) {
    const fill = make("span", { class: `bar-fill of-${side}` });
    fill.style.width = `${((100 * value) / top).toFixed(1)}%`;
    return make(
      "span",
      { class: "bar" },
      make("span", { class: "bar-track" }, fill),
      make("span", { class: "number" }, formatNumber(value)),
    );
  }
}

/** Formats rounding errors such as 10⁻⁸ as 0. */
function formatRounded(/** @type {number} */ x) {
  return formatNumber(Math.abs(x) < 0.005 ? 0 : x);
}

export class ResidualStep extends WordStep {
  /** @param {StepContext} context */
  constructor(context) {
    super(context);
    this.parts = new Choice({ name: "part", onPick: (value) => this.#choosePart(value) });
    this.lengths = new Lengths({ onPick: (row) => this.context.go({ row }) });
    this.vectors = new VectorBars();
    this.vectorsPanel = new Panel("residual", this.vectors.element);
    this.facts = make("p", { class: "hint number" });
    this.element = make(
      "div",
      {},
      this.parts.element,
      make(
        "div",
        { class: "pair wide-right" },
        this.lengths.element,
        make("div", {}, this.vectorsPanel.element, this.facts),
      ),
    );
  }

  #choosePart(value) {
    const part = value === "feed_forward" ? "feed_forward" : "attention";
    const decoder = stackOf(this.context.place.attention) === "decoder";
    const attention = value === "cross"
      ? "cross"
      : value === "self" && decoder
      ? "decoder"
      : this.context.place.attention;
    this.context.go({ part, attention });
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data, place } = context;
    const { stack, units, piece, part } = selectionOf(context);
    const parts = (stack === "encoder" ? ["self", "feed_forward"] : ["self", "cross", "feed_forward"]).map((value) => ({
      value,
      text: t(`look.sublayerNames.${value}`),
    }));
    this.parts.update(t("look.sublayer"), parts, part);
    this.lengths.update(context);
    const before = data.residualStream(stack, place.layer, part).at(piece);
    const added = data.sublayer(stack, place.layer, part, "added").at(piece);
    const after = data.sublayer(stack, place.layer, part, "after").at(piece);
    const post = data.model.norm === "post";
    const sum = post ? Float32Array.from(before, (x, i) => x + added[i]) : after;
    /** @type {VectorRow[]} */
    const rows = [
      { label: t("look.before"), values: before, note: formatNumber(norm(before)), height: 30 },
      {
        label: t("look.added"),
        sign: "+",
        values: added,
        side: "attention",
        note: formatNumber(norm(added)),
        height: 30,
      },
      { label: t("look.sum"), sign: "=", values: sum, note: formatNumber(norm(sum)), bold: !post, height: 30 },
    ];
    if (post) {
      rows.push({
        label: t("look.normalised"),
        values: after,
        note: formatNumber(norm(after)),
        bold: true,
        height: 30,
      });
    }
    this.vectors.update(rows, {
      label: t("look.residualCaption", isolated(units[place.row].text)),
      hint: t("look.pointAtNumber"),
      describe: (i) =>
        `${i + 1}: ${formatNumber(before[i])} + ${formatNumber(added[i])} = ${formatNumber(sum[i])}${
          post ? ` → ${formatNumber(after[i])}` : ""
        }`,
    });
    this.vectorsPanel.update(t("look.residualCaption", isolated(units[place.row].text)));
    const from = post ? sum : after;
    this.facts.textContent = post
      ? t(
        "look.normFacts",
        formatRounded(mean(from)),
        formatNumber(standardDeviation(from)),
        formatRounded(mean(after)),
        formatNumber(standardDeviation(after)),
      )
      : t("look.preNormFacts", formatRounded(mean(from)), formatNumber(standardDeviation(from)));
  }
}

/** One square per unit of the hidden layer, coloured by its activation. */
class UnitGrid {
  /** @param {{ onPick: (unit: number) => void }} callbacks */
  constructor({ onPick }) {
    this.canvas = new Canvas("unit-grid-canvas", (pen, w, h, colour) => this.#paint(pen, w, h, colour));
    this.element = make("div", {
      class: "unit-grid",
      role: "img",
      tabindex: 0,
      "data-arrows": true,
      onkeydown: (event) => this.#key(event),
    }, this.canvas.element);
    /** @type {Float32Array | null} */
    this.values = null;
    this.top = 1;
    this.selected = 0;
    this.onPick = onPick;
    this.canvas.element.addEventListener("click", (event) => this.#pick(event));
    onWidth(this.element, () => this.#fit());
  }

  /**
   * @param {Float32Array} values
   * @param {number} top the activation in full colour
   * @param {number} selected
   * @param {string} label
   */
  update(values, top, selected, label) {
    this.values = values;
    this.top = top;
    this.selected = selected;
    setAttribute(this.element, "aria-label", label);
    this.#fit();
  }

  #fit() {
    const width = this.element.clientWidth;
    if (!width || !this.values) return;
    const n = this.values.length;
    this.columns = Math.max(
      1,
      Math.min(n, Math.floor(width / Math.max(6, Math.min(16, Math.sqrt((width * 220) / n))))),
    );
    this.size = Math.min(18, width / this.columns);
    this.canvas.resize(this.size * this.columns, this.size * Math.ceil(n / this.columns));
  }

  #paint(pen, _width, _height, colour) {
    const accent = colour("attention");
    const ink = colour("ink");
    const gap = this.size > 5 ? 1 : 0;
    this.values.forEach((value, i) => {
      const [x, y] = [(i % this.columns) * this.size, Math.floor(i / this.columns) * this.size];
      pen.fillStyle = rgba(ink, 0.045);
      pen.fillRect(x, y, this.size - gap, this.size - gap);
      pen.fillStyle = rgba(value >= 0 ? accent : ink, Math.min(1, Math.abs(value) / (this.top || 1)));
      pen.fillRect(x, y, this.size - gap, this.size - gap);
    });
    pen.strokeStyle = rgba(ink, 1);
    pen.lineWidth = 1.5;
    pen.strokeRect(
      (this.selected % this.columns) * this.size,
      Math.floor(this.selected / this.columns) * this.size,
      this.size - gap,
      this.size - gap,
    );
  }

  #pick(event) {
    const unit = Math.floor(event.offsetY / this.size) * this.columns + Math.floor(event.offsetX / this.size);
    if (unit < this.values.length) this.onPick(unit);
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const unit = this.selected + step;
    if (unit >= 0 && unit < this.values.length) this.onPick(unit);
  }
}

export class FeedForwardStep extends WordStep {
  /** @param {StepContext} context */
  constructor(context) {
    super(context);
    this.units = new UnitGrid({ onPick: (unit) => this.context.go({ unit }) });
    this.unitsPanel = new Panel("units", this.units.element);
    this.activations = make("div", { class: "bars" });
    this.activationsPanel = new Panel("unit", this.activations);
    this.element = make(
      "div",
      {},
      this.words.element,
      make("div", { class: "pair" }, this.unitsPanel.element, this.activationsPanel.element),
    );
  }

  /** @param {StepContext} context */
  update(context) {
    this.chooseWord(context);
    const { data, place } = context;
    const { stack, side, units, piece } = selectionOf(context);
    const hidden = data.hidden(stack, place.layer);
    const values = hidden.at(piece);
    const chosen = place.unit ?? argmax(values);
    const nActive = values.reduce((n, x) => n + (x > 0 ? 1 : 0), 0);
    const top = Math.max(
      ...units.map((unit) => hidden.at(unit.pieces[0])).map((row) => row.reduce((a, b) => Math.max(a, Math.abs(b)), 0)),
    );
    const caption = t("look.unitsCaption", isolated(units[place.row].text), nActive, values.length);
    this.units.update(values, top, chosen, caption);
    const strongest = Array.from(values, (value, unit) => ({ value, unit })).sort((a, b) => b.value - a.value).slice(
      0,
      20,
    );
    this.unitsPanel.update(
      caption,
      () =>
        table(
          caption,
          [t("look.unit"), t("look.value")],
          strongest.map(({ unit, value }) => [String(unit + 1), formatNumber(value)]),
        ),
    );
    this.#showUnit(units, side, hidden, chosen, place.row);
  }

  #showUnit(units, side, hidden, chosen, row) {
    const activations = units.map((unit) => hidden.at(unit.pieces[0])[chosen]);
    const top = Math.max(...activations.map(Math.abs)) || 1;
    const lines = units.map((unit, i) => {
      const fill = make("span", { class: "bar-fill of-attention" });
      fill.style.width = `${((100 * Math.abs(activations[i])) / top).toFixed(1)}%`;
      const line = make(
        "div",
        { class: "bar-line" },
        wordElement(unit.text, side),
        make(
          "span",
          { class: "bar" },
          make("span", { class: "bar-track" }, fill),
          make("span", { class: "number" }, formatNumber(activations[i])),
        ),
      );
      setAttribute(line, "data-lit", i === row);
      return line;
    });
    this.activations.replaceChildren(...lines);
    this.activationsPanel.update(t("look.unitCaption", chosen + 1));
  }
}

/** One word's vector after each layer. */
export class LayersStep extends WordStep {
  /** @param {StepContext} context */
  constructor(context) {
    super(context);
    this.vectors = new VectorBars({ onPick: (index) => index > 0 && this.context.go({ layer: index - 1 }) });
    this.panel = new Panel("layers", this.vectors.element);
    this.element = make("div", {}, this.words.element, this.panel.element);
  }

  /** @param {StepContext} context */
  update(context) {
    this.chooseWord(context);
    const { data, place } = context;
    const { stack, side, units, piece } = selectionOf(context);
    const vectors = [data.embedding(side, "sum").at(piece)];
    for (let layer = 0; layer < data.nLayers(place.attention); layer += 1) {
      vectors.push(data.sublayer(stack, layer, "feed_forward", "after").at(piece));
    }
    const similarity = vectors.map((vector) => cosine(vector, vectors[0]).toFixed(2).replace("-", "−"));
    const rows = vectors.map((values, i) => ({
      label: i ? t("look.afterLayer", i) : t("look.input"),
      values,
      bold: i === place.layer + 1,
      note: similarity[i],
      height: 30,
      side: side === "target" ? "target" : null,
    }));
    const caption = t(
      "look.layersCaption",
      isolated(units[place.row].text),
      data.querySide(place.attention).pieces.length,
      data.model.d_model,
    );
    this.vectors.update(rows, {
      label: caption,
      hint: t("look.layersHint"),
      describe: (i) => `${i + 1}: ${vectors.map((vector) => formatNumber(vector[i])).join(" → ")}`,
    });
    this.panel.update(
      caption,
      () =>
        table(
          caption,
          [t("look.layer"), t("look.length"), t("look.similarityToInput")],
          vectors.map((
            vector,
            i,
          ) => [i ? t("look.afterLayer", i) : t("look.input"), formatNumber(norm(vector)), similarity[i]]),
        ),
    );
  }
}
