// Stops 5 to 7: scores, softmax, the weighted sum of the values.

import { AttentionPair, headView } from "./attention_pair.js";
import { Choice, Switch, unitOptions } from "./choice.js";
import { make, put, quoted, table, word } from "./dom.js";
import { entropy, share, shown, softmax } from "./numbers.js";
import { Panel } from "./panel.js";
import { headKey, sidesOf } from "./seen.js";
import { Strips } from "./strips.js";

/** One query's scores, powers and weights over all keys, between pieces as the model computes them. */
function rowOf({ seen, place }) {
  const { attention, layer, head } = place;
  const query = seen.rows(attention, place.level)[place.row].pieces[0];
  const visible = seen.attention(attention, layer, "visible")?.at(query) ?? null;
  const scores = seen.attention(attention, layer, "scores").at(head, query);
  const root = Math.sqrt(seen.model.d_k);
  const divided = seen.divides
    ? seen.attention(attention, layer, "scaled").at(head, query)
    : scores.map((x) => x / root);
  return {
    query,
    visible,
    scores,
    divided,
    scaled: seen.attention(attention, layer, "scaled").at(head, query),
    weights: seen.attention(attention, layer, "weights").at(head, query),
  };
}

/** The row with and without ÷ √d_k, as two sets of bars. */
class WithAndWithout {
  constructor() {
    this.body = make("div", { class: "bars two-bars" });
    this.panel = new Panel("without", this.body);
    this.element = this.panel.element;
  }

  update(context) {
    const { seen, place, t } = context;
    const { query, visible, scores, divided } = rowOf(context);
    const [scaled, plain] = [softmax(divided, visible), softmax(scores, visible)];
    const keys = seen.keySide(place.attention).pieces;
    const side = sidesOf(place.attention).columns;
    const head = make(
      "div",
      { class: "bar-line bar-head" },
      make("span"),
      make("span", {}, t.withRoot),
      make("span", {}, t.withoutRoot),
    );
    const lines = keys.map((key, i) =>
      make("div", { class: "bar-line" }, word(key.text, side), bar(scaled[i]), bar(plain[i]))
    );
    const foot = make(
      "div",
      { class: "bar-line bar-foot" },
      make("span", {}, t.entropy),
      make("span", { class: "number" }, shown(entropy(scaled))),
      make("span", { class: "number" }, shown(entropy(plain))),
    );
    this.body.replaceChildren(head, ...lines, foot);
    this.panel.update(t.withoutCaption(quoted(seen.querySide(place.attention).pieces[query].text)), t);
  }
}

/** A share as a bar with its number. */
export function bar(value, side = "attention") {
  const fill = make("span", { class: `bar-fill of-${side}` });
  fill.style.width = `${(100 * Math.min(1, value)).toFixed(1)}%`;
  return make(
    "span",
    { class: "bar" },
    make("span", { class: "bar-track" }, fill),
    make("span", { class: "number" }, share(value)),
  );
}

/** Softmax as three steps: score, e to that power, share of the sum. */
class SoftmaxSteps {
  constructor() {
    this.place = make("div", { class: "table-scroll" });
    this.panel = new Panel("steps", this.place);
    this.element = this.panel.element;
  }

  update(context) {
    const { seen, place, t, local } = context;
    const found = rowOf(context);
    const scores = local.otherScale ? (seen.divides ? found.scores : found.divided) : found.scaled;
    const weights = local.otherScale ? softmax(scores, found.visible) : found.weights;
    const keys = seen.keySide(place.attention).pieces;
    const seenAt = (i) => found.visible === null || found.visible[i] > 0;
    const powers = Array.from(scores, (x, i) => (seenAt(i) ? Math.exp(x) : 0));
    const total = powers.reduce((a, b) => a + b, 0);
    const side = sidesOf(place.attention).columns;
    const rows = keys.map((
      key,
      i,
    ) => [word(key.text, side), seenAt(i) ? shown(scores[i]) : "−∞", shown(powers[i]), bar(weights[i])]);
    const sum = weights.reduce((a, b) => a + b, 0);
    rows.push([t.total, "", shown(total), make("span", { class: "number", "data-number": "row-sum" }, sum.toFixed(2))]);
    const caption = t.softmaxCaption(quoted(seen.querySide(place.attention).pieces[found.query].text));
    const made = table(caption, [t.key, t.score, "eˣ", `÷ ${shown(total)}`], rows);
    made.classList.add("steps-table");
    this.place.replaceChildren(made);
    this.panel.update(caption, t);
  }
}

/** Scores (5) or weights (6) of one head; both can be seen without the division. */
class HeadStop {
  constructor(context, kind) {
    this.kind = kind;
    this.context = context;
    this.scale = new Switch({ name: "scale", onTurn: (on) => this.#turn(on) });
    this.pair = new AttentionPair({ onPick: (cell) => this.context.go(cell), lines: kind === "weights" });
    this.beside = kind === "weights" ? new SoftmaxSteps() : new WithAndWithout();
    (kind === "weights" ? this.pair.below : this.pair.pair).append(this.beside.element);
    this.element = make("div", {}, this.scale.element, this.pair.element);
  }

  #turn(on) {
    this.context.local.otherScale = on;
    this.context.redraw();
  }

  update(context) {
    this.context = context;
    const { seen, t, local } = context;
    const additive = seen.model.attention === "additive";
    if (additive) local.otherScale = false;
    this.scale.element.hidden = additive;
    this.scale.update(
      seen.divides ? t.switchWithout(seen.model.d_k) : t.switchWith(seen.model.d_k),
      Boolean(local.otherScale),
    );
    const scale = Boolean(local.otherScale);
    this.pair.update(context, {
      kind: this.kind,
      change: { scale },
      caption: this.kind === "scores" ? this.#range(context, scale) : t.mapCaption,
    });
    this.beside.element.hidden = additive && this.kind === "scores";
    this.beside.update(context);
  }

  #range(context, scale) {
    const view = headView(context, { kind: "scores", change: { scale } });
    return context.t.scoresCaption(shown(view.floor), shown(view.ceiling));
  }
}

export class ScoresStop extends HeadStop {
  constructor(context) {
    super(context, "scores");
  }
}

export class SoftmaxStop extends HeadStop {
  constructor(context) {
    super(context, "weights");
  }
}

/** Each value times its weight, and their sum. */
export class ValuesStop {
  constructor(context) {
    this.context = context;
    this.words = new Choice({ name: "row", kind: "sentence", onPick: (row) => this.context.go({ row: Number(row) }) });
    this.strips = new Strips();
    this.panel = new Panel("values", this.strips.element);
    this.element = make("div", {}, this.words.element, this.panel.element);
  }

  update(context) {
    this.context = context;
    const { seen, place, t } = context;
    const { attention, layer, head } = place;
    const sides = sidesOf(attention);
    this.words.update(t.whoLooks, unitOptions(seen.rows(attention, place.level), sides.rows), place.row);
    const { query, weights } = rowOf(context);
    const keys = seen.keySide(attention).pieces;
    const values = seen.attention(attention, layer, "v");
    const parts = keys.map((_, j) => values.at(head, j).map((x) => x * weights[j]));
    const out = seen.attention(attention, layer, "heads").at(head, query);
    const rows = keys.map((key, j) => ({
      label: key.text,
      side: sides.columns,
      sign: j ? "+" : "",
      values: parts[j],
      note: `× ${share(weights[j])}`,
      special: key.special,
    }));
    rows.push({ label: t.headOutput, sign: "=", values: out, side: "attention", bold: true, note: "" });
    const asked = quoted(seen.querySide(attention).pieces[query].text);
    this.strips.update(rows, {
      label: t.valuesCaption(asked),
      hint: seen.off.has(headKey(place)) ? t.valuesOff : t.valuesHint,
      describe: (i) => this.#terms(i, parts, out),
    });
    this.panel.update(
      t.valuesCaption(asked),
      t,
      () =>
        table(
          t.valuesCaption(asked),
          [t.key, t.weight, t.largestTerm],
          keys.map((
            key,
            j,
          ) => [word(key.text, sides.columns), share(weights[j]), shown(Math.max(...parts[j].map(Math.abs)))]),
        ),
    );
    put(this.strips.element, "data-many", keys.length > 24);
  }

  /** The three largest terms in words; all of them are in the strips. */
  #terms(i, parts, out) {
    const terms = parts.map((part) => part[i]).sort((a, b) => Math.abs(b) - Math.abs(a));
    const rest = terms.length > 3 ? " + …" : "";
    return `${i + 1}: ${terms.slice(0, 3).map((x) => shown(x)).join(" + ")}${rest} = ${shown(out[i])}`;
  }
}
