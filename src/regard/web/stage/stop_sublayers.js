// Stops 9 to 11: add and normalise, feed-forward, the next layer.

import { Canvas, onWidth, rgba } from "./canvas.js";
import { Choice, unitOptions } from "./choice.js";
import { make, put, quoted, table, word } from "./dom.js";
import { argmax, cosine, mean, norm, shown, spread } from "./numbers.js";
import { Panel } from "./panel.js";
import { sideOfStack, stackOf } from "./seen.js";
import { Strips } from "./strips.js";

/** The pieces of the stack that a place is in; rows of cross attention are the decoder's too. */
function standing({ seen, place }) {
  const stack = stackOf(place.attention);
  const side = sideOfStack(stack);
  const units = seen.rows(place.attention, place.level);
  const attentionPart = place.attention === "cross" ? "cross" : "self";
  return {
    stack,
    side,
    units,
    piece: units[place.row].pieces[0],
    part: place.part === "feed_forward" ? "feed_forward" : attentionPart,
  };
}

/** A choice of one word above whatever the stop shows of it. */
class OfOneWord {
  constructor(context) {
    this.context = context;
    this.words = new Choice({ name: "row", kind: "sentence", onPick: (row) => this.context.go({ row: Number(row) }) });
  }

  chooseWord(context) {
    this.context = context;
    const { units, side } = standing(context);
    this.words.update(context.t.word, unitOptions(units, side), context.place.row);
  }
}

/** How long each word's vector was, and how long what was added is. */
class Lengths {
  constructor({ onPick }) {
    this.onPick = onPick;
    this.body = make("div", { class: "bars lengths" });
    this.panel = new Panel("lengths", this.body);
    this.element = this.panel.element;
  }

  update(context) {
    const { seen, place, t } = context;
    const { stack, side, units, part } = standing(context);
    const of = (name) => units.map((unit) => seen.sublayer(stack, place.layer, part, name).at(unit.pieces[0]));
    const [before, added, after] = [of("norm_before"), of("norm_added"), of("norm_after")];
    const top = Math.max(...before, ...added, ...after);
    const head = make(
      "div",
      { class: "bar-line bar-head" },
      make("span"),
      make("span", {}, make("span", { class: "swatch of-ink" }), t.wasThere),
      make("span", {}, make("span", { class: "swatch of-attention" }), t.added),
    );
    const lines = units.map((unit, i) => {
      const line = make(
        "button",
        { type: "button", class: "bar-line plain", onclick: () => this.onPick(i) },
        word(unit.text, side),
        this.#bar(before[i], top, "ink"),
        this.#bar(added[i], top, "attention"),
      );
      put(line, "aria-pressed", i === place.row ? "true" : "false");
      return line;
    });
    this.body.replaceChildren(head, ...lines);
    this.panel.update(
      t.lengthsCaption,
      t,
      () =>
        table(
          t.lengthsCaption,
          [t.word, t.wasThere, t.added, t.after],
          units.map((unit, i) => [word(unit.text, side), shown(before[i]), shown(added[i]), shown(after[i])]),
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
      make("span", { class: "number" }, shown(value)),
    );
  }
}

/** A mean of 10⁻⁸ is a 0 that was rounded. */
function plain(x) {
  return shown(Math.abs(x) < 0.005 ? 0 : x);
}

export class ResidualStop extends OfOneWord {
  constructor(context) {
    super(context);
    this.parts = new Choice({ name: "part", onPick: (value) => this.#choosePart(value) });
    this.lengths = new Lengths({ onPick: (row) => this.context.go({ row }) });
    this.strips = new Strips();
    this.stripsPanel = new Panel("residual", this.strips.element);
    this.facts = make("p", { class: "hint number" });
    this.element = make(
      "div",
      {},
      this.parts.element,
      make(
        "div",
        { class: "pair wide-right" },
        this.lengths.element,
        make("div", {}, this.stripsPanel.element, this.facts),
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

  update(context) {
    this.context = context;
    const { seen, place, t } = context;
    const { stack, units, piece, part } = standing(context);
    const parts = (stack === "encoder" ? ["self", "feed_forward"] : ["self", "cross", "feed_forward"]).map((value) => ({
      value,
      text: t.parts[value],
    }));
    this.parts.update(t.sublayer, parts, part);
    this.lengths.update(context);
    const before = seen.stream(stack, place.layer, part).at(piece);
    const added = seen.sublayer(stack, place.layer, part, "added").at(piece);
    const after = seen.sublayer(stack, place.layer, part, "after").at(piece);
    const post = seen.model.norm === "post";
    const sum = post ? Float32Array.from(before, (x, i) => x + added[i]) : after;
    const rows = [
      { label: t.wasThere, values: before, note: shown(norm(before)), height: 30 },
      { label: t.added, sign: "+", values: added, side: "attention", note: shown(norm(added)), height: 30 },
      { label: t.sum, sign: "=", values: sum, note: shown(norm(sum)), bold: !post, height: 30 },
    ];
    if (post) rows.push({ label: t.normalised, values: after, note: shown(norm(after)), bold: true, height: 30 });
    this.strips.update(rows, {
      label: t.residualCaption(quoted(units[place.row].text)),
      hint: t.pointAtStrip,
      describe: (i) =>
        `${i + 1}: ${shown(before[i])} + ${shown(added[i])} = ${shown(sum[i])}${post ? ` → ${shown(after[i])}` : ""}`,
    });
    this.stripsPanel.update(t.residualCaption(quoted(units[place.row].text)), t);
    const from = post ? sum : after;
    this.facts.textContent = post
      ? t.normFacts(plain(mean(from)), shown(spread(from)), plain(mean(after)), shown(spread(after)))
      : t.preNormFacts(plain(mean(from)), shown(spread(from)));
  }
}

/** One square a unit of the inner layer, as full as it fires. */
class Field {
  constructor({ onPick }) {
    this.canvas = new Canvas("field-picture", (pen, w, h, colour) => this.#paint(pen, w, h, colour));
    this.element = make("div", {
      class: "field",
      role: "img",
      tabindex: 0,
      "data-arrows": true,
      onkeydown: (event) => this.#key(event),
    }, this.canvas.element);
    this.onPick = onPick;
    this.canvas.element.addEventListener("click", (event) => this.#pick(event));
    onWidth(this.element, () => this.#fit());
  }

  update(values, top, chosen, label) {
    Object.assign(this, { values, top, chosen });
    put(this.element, "aria-label", label);
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
      (this.chosen % this.columns) * this.size,
      Math.floor(this.chosen / this.columns) * this.size,
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
    const unit = this.chosen + step;
    if (unit >= 0 && unit < this.values.length) this.onPick(unit);
  }
}

export class FeedForwardStop extends OfOneWord {
  constructor(context) {
    super(context);
    this.field = new Field({ onPick: (unit) => this.#choose(unit) });
    this.fieldPanel = new Panel("field", this.field.element);
    this.over = make("div", { class: "bars" });
    this.overPanel = new Panel("unit", this.over);
    this.element = make(
      "div",
      {},
      this.words.element,
      make("div", { class: "pair" }, this.fieldPanel.element, this.overPanel.element),
    );
  }

  #choose(unit) {
    this.unit = unit;
    this.update(this.context);
  }

  update(context) {
    this.chooseWord(context);
    const { seen, place, t } = context;
    const { stack, side, units, piece } = standing(context);
    const hidden = seen.hidden(stack, place.layer);
    const values = hidden.at(piece);
    const key = `${stack}.${place.layer}.${piece}`;
    if (key !== this.last || this.unit === undefined) this.unit = argmax(values);
    this.last = key;
    const firing = values.reduce((n, x) => n + (x > 0 ? 1 : 0), 0);
    const top = Math.max(
      ...units.map((unit) => hidden.at(unit.pieces[0])).map((row) => row.reduce((a, b) => Math.max(a, Math.abs(b)), 0)),
    );
    const caption = t.fieldCaption(quoted(units[place.row].text), firing, values.length);
    this.field.update(values, top, this.unit, caption);
    const strongest = Array.from(values, (value, unit) => ({ value, unit })).sort((a, b) => b.value - a.value).slice(
      0,
      20,
    );
    this.fieldPanel.update(
      caption,
      t,
      () => table(caption, [t.unit, t.value], strongest.map((one) => [String(one.unit + 1), shown(one.value)])),
    );
    this.#showUnit(units, side, hidden, t, place.row);
  }

  #showUnit(units, side, hidden, t, chosen) {
    const fires = units.map((unit) => hidden.at(unit.pieces[0])[this.unit]);
    const top = Math.max(...fires.map(Math.abs)) || 1;
    const lines = units.map((unit, i) => {
      const fill = make("span", { class: "bar-fill of-attention" });
      fill.style.width = `${((100 * Math.abs(fires[i])) / top).toFixed(1)}%`;
      const line = make(
        "div",
        { class: "bar-line" },
        word(unit.text, side),
        make(
          "span",
          { class: "bar" },
          make("span", { class: "bar-track" }, fill),
          make("span", { class: "number" }, shown(fires[i])),
        ),
      );
      put(line, "data-lit", i === chosen);
      return line;
    });
    this.over.replaceChildren(...lines);
    this.overPanel.update(t.unitCaption(this.unit + 1), t);
  }
}

/** One word's vector on its way up. */
export class LayersStop extends OfOneWord {
  constructor(context) {
    super(context);
    this.strips = new Strips({ onPick: (index) => index > 0 && this.context.go({ layer: index - 1 }) });
    this.panel = new Panel("layers", this.strips.element);
    this.element = make("div", {}, this.words.element, this.panel.element);
  }

  update(context) {
    this.chooseWord(context);
    const { seen, place, t } = context;
    const { stack, side, units, piece } = standing(context);
    const vectors = [seen.embedding(side, "sum").at(piece)];
    for (let layer = 0; layer < seen.nLayers(place.attention); layer += 1) {
      vectors.push(seen.sublayer(stack, layer, "feed_forward", "after").at(piece));
    }
    const likeness = vectors.map((vector) => cosine(vector, vectors[0]).toFixed(2).replace("-", "−"));
    const rows = vectors.map((values, i) => ({
      label: i ? t.afterLayer(i) : t.atTheStart,
      values,
      bold: i === place.layer + 1,
      note: likeness[i],
      height: 30,
      side: side === "target" ? "target" : null,
    }));
    const caption = t.layersCaption(
      quoted(units[place.row].text),
      seen.querySide(place.attention).pieces.length,
      seen.model.d_model,
    );
    this.strips.update(rows, {
      label: caption,
      hint: t.layersHint,
      describe: (i) => `${i + 1}: ${vectors.map((vector) => shown(vector[i])).join(" → ")}`,
    });
    this.panel.update(
      caption,
      t,
      () =>
        table(
          caption,
          [t.layer, t.length, t.likenessToStart],
          vectors.map((vector, i) => [i ? t.afterLayer(i) : t.atTheStart, shown(norm(vector)), likeness[i]]),
        ),
    );
  }
}
