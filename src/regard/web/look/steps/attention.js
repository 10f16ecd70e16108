// Steps 5 to 7: scores, softmax, weighted sum of the values.

import { isolated, make, numberElement, setAttribute, table, wordElement } from "../../dom.js";
import { formatNumber, formatWeight } from "../../format.js";
import { t } from "../../texts/texts.js";
import { Choice, Switch, unitOptions } from "../choice.js";
import { HeadDetail } from "../head_detail.js";
import { headKey } from "../head_key.js";
import { sidesOf } from "../look_data.js";
import { entropy, gradientLeft, softmax } from "../math.js";
import { Panel } from "../panel.js";
import { VectorBars } from "../vector_bars.js";
import { bar } from "../weight_bar.js";

/** @import { StepContext } from "../look_panel.js" */
/** @import { VectorRow } from "../vector_bars.js" */

/**
 * One query's scores and weights over all keys, between pieces, as the model computes them.
 * @param {StepContext} context
 */
function rowOf({ data, place }) {
  const query = data.rows(place.attention, place.level)[place.row].pieces[0];
  return { query, ...data.row(place, query) };
}

/** The weights of a row with and without ÷ √d_k, and how much of the softmax's gradient is left; the switch marks one. */
class ScaleComparison {
  constructor() {
    this.body = make("div", { class: "bars two-bars" });
    this.panel = new Panel("without", this.body);
    this.element = this.panel.element;
  }

  /** @param {StepContext} context */
  update(context) {
    const { data, place } = context;
    const { query, visible, scores } = rowOf(context);
    const divided = scores.map((x) => x / Math.sqrt(data.model.d_k));
    const columns = [softmax(divided, visible), softmax(scores, visible)];
    const keys = data.keySide(place.attention).pieces;
    const side = sidesOf(place.attention).columns;
    const used = data.dividesAt(place) ? 0 : 1;
    const line = (name, kind, cell) =>
      make("div", { class: `bar-line ${kind}` }, name, columns.map((weights, i) => cell(weights, i)));
    const sum = (name, of) =>
      line(make("span", {}, t(name)), "bar-foot", (weights) => numberElement(of(weights), formatNumber(of(weights))));
    this.body.replaceChildren(
      line(make("span"), "bar-head", (_, i) => {
        return make(i === used ? "b" : "span", {}, t(["look.withRoot", "look.withoutRoot"][i]));
      }),
      ...keys.map((key, j) => line(wordElement(key.text, side), "", (weights) => bar(weights[j]))),
      sum("look.entropy", entropy),
      sum("look.gradient", gradientLeft),
    );
    this.panel.update(t("look.withoutCaption", isolated(data.querySide(place.attention).pieces[query].text)));
  }
}

/** The softmax step by step: score, exponential, share of the sum. */
class SoftmaxTable {
  constructor() {
    this.box = make("div", { class: "table-scroll" });
    this.panel = new Panel("softmax-table", this.box);
    this.element = this.panel.element;
  }

  /** @param {StepContext} context */
  update(context) {
    const { data, place } = context;
    const row = rowOf(context);
    const { scaled: scores, weights } = row;
    const keys = data.keySide(place.attention).pieces;
    const isVisible = (i) => row.visible === null || row.visible[i] > 0;
    const exponentials = Array.from(scores, (x, i) => (isVisible(i) ? Math.exp(x) : 0));
    const total = exponentials.reduce((a, b) => a + b, 0);
    const side = sidesOf(place.attention).columns;
    const rows = keys.map((
      key,
      i,
    ) => [
      wordElement(key.text, side),
      isVisible(i) ? formatNumber(scores[i]) : "−∞",
      formatNumber(exponentials[i]),
      bar(weights[i]),
    ]);
    const sum = weights.reduce((a, b) => a + b, 0);
    rows.push([
      t("look.total"),
      "",
      numberElement(total, formatNumber(total)),
      numberElement(sum, sum.toFixed(2), { class: "number", "data-number": "row-sum" }),
    ]);
    const caption = t("look.softmaxCaption", isolated(data.querySide(place.attention).pieces[row.query].text));
    const element = table(caption, [t("look.key"), t("look.score"), "eˣ", `÷ ${formatNumber(total)}`], rows);
    element.classList.add("softmax-table");
    this.box.replaceChildren(element);
    this.panel.update(caption);
  }
}

/** Scores (step 5) or weights (step 6) of one head, both also with the other choice about ÷ √d_k. */
class HeadStep {
  /**
   * @param {StepContext} context
   * @param {"scores" | "weights"} kind
   */
  constructor(context, kind) {
    this.kind = kind;
    this.context = context;
    this.scale = new Switch({ name: "scale", onTurn: (on) => this.context.go({ switched: on ? "scale" : "" }) });
    this.head = new HeadDetail({ onPick: (cell) => this.context.go(cell), lines: kind === "weights" });
    this.detail = kind === "weights" ? new SoftmaxTable() : new ScaleComparison();
    (kind === "weights" ? this.head.below : this.head.pair).append(this.detail.element);
    this.element = make("div", {}, this.scale.element, this.head.element);
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data, place } = context;
    const additive = data.model.attention === "additive";
    this.scale.element.hidden = additive;
    this.scale.update(
      t(data.divides ? "look.switchWithout" : "look.switchWith", data.model.d_k),
      place.switched === "scale",
    );
    this.head.update(context, {
      kind: this.kind,
      caption: t(this.kind === "scores" ? "look.scoresCaption" : "look.mapCaption"),
    });
    this.detail.element.hidden = additive && this.kind === "scores";
    this.detail.update(context);
  }
}

export class ScoresStep extends HeadStep {
  /** @param {StepContext} context */
  constructor(context) {
    super(context, "scores");
  }
}

export class SoftmaxStep extends HeadStep {
  /** @param {StepContext} context */
  constructor(context) {
    super(context, "weights");
  }
}

/** Each value times its weight, and the sum. */
export class ValuesStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.words = new Choice({ name: "row", kind: "sentence", onPick: (row) => this.context.go({ row: Number(row) }) });
    this.vectors = new VectorBars();
    this.panel = new Panel("values", this.vectors.element);
    this.element = make("div", {}, this.words.element, this.panel.element);
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data, place } = context;
    const { attention, layer, head } = place;
    const sides = sidesOf(attention);
    this.words.update(t("look.query"), unitOptions(data.rows(attention, place.level), sides.rows), place.row);
    const { query, weights } = rowOf(context);
    const keys = data.keySide(attention).pieces;
    const values = data.attention(attention, layer, "v");
    const parts = keys.map((_, j) => values.at(head, j).map((x) => x * weights[j]));
    const out = data.attention(attention, layer, "heads").at(head, query);
    /** @type {VectorRow[]} */
    const rows = keys.map((key, j) => ({
      label: key.text,
      side: sides.columns,
      sign: j ? "+" : "",
      values: parts[j],
      note: `× ${formatWeight(weights[j])}`,
      special: key.special,
    }));
    rows.push({ label: t("look.headOutput"), sign: "=", values: out, side: "attention", bold: true, note: "" });
    const queryText = isolated(data.querySide(attention).pieces[query].text);
    this.vectors.update(rows, {
      label: t("look.valuesCaption", queryText),
      hint: data.off.has(headKey(place)) ? t("look.valuesOff") : t("look.valuesHint"),
      describe: (i) => this.#terms(i, parts, out),
    });
    this.panel.update(
      t("look.valuesCaption", queryText),
      () =>
        table(
          t("look.valuesCaption", queryText),
          [t("look.key"), t("look.weight"), t("look.largestTerm")],
          keys.map((
            key,
            j,
          ) => [
            wordElement(key.text, sides.columns),
            formatWeight(weights[j]),
            formatNumber(Math.max(...parts[j].map(Math.abs))),
          ]),
        ),
    );
    setAttribute(this.vectors.element, "data-many", keys.length > 24);
  }

  /** The sum with its three largest terms written out. */
  #terms(i, parts, out) {
    const terms = parts.map((part) => part[i]).sort((a, b) => Math.abs(b) - Math.abs(a));
    const rest = terms.length > 3 ? " + …" : "";
    return `${i + 1}: ${terms.slice(0, 3).map((x) => formatNumber(x)).join(" + ")}${rest} = ${formatNumber(out[i])}`;
  }
}
