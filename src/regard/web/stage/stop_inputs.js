// Stops 1 to 3: pieces, embeddings, positions.

import { Canvas, onWidth, rgba } from "./canvas.js";
import { Choice, Slider } from "./choice.js";
import { make, put, quoted, table, word } from "./dom.js";
import { cosine, norm, shown, sinusoid } from "./numbers.js";
import { Panel } from "./panel.js";
import { sideOfStack, stackOf } from "./seen.js";
import { Strips } from "./strips.js";

/** The side that the reader is on: source below the encoder, the target's inputs below the decoder. */
function inputSide({ seen, place }) {
  const side = sideOfStack(stackOf(place.attention));
  return { side, record: side === "source" ? seen.look.source : seen.look.target.inputs };
}

/** Positions belong to pieces: the first piece of the reader's word. */
function pieceOf({ seen, place }) {
  const { record } = inputSide({ seen, place });
  const at = place.level === "words" ? (record.words[place.row]?.pieces[0] ?? 0) : place.row;
  return Math.min(at, record.pieces.length - 1);
}

function goToPiece(context, piece) {
  const { record } = inputSide(context);
  context.go({ row: context.place.level === "words" ? record.pieces[piece].word : piece });
}

export class PiecesStop {
  constructor() {
    this.list = make("ol", { class: "pieces" });
    this.panel = new Panel("pieces", this.list);
    this.element = make("div", {}, this.panel.element);
  }

  update(context) {
    const { seen, t } = context;
    const { side, record } = inputSide(context);
    const size = side === "source" ? seen.model.n_src_symbols : seen.model.n_tgt_symbols;
    this.list.replaceChildren(...record.words.map((unit) => this.#word(unit, record, side)));
    this.panel.update(
      t.piecesCaption(record.pieces.length, record.words.length, size),
      t,
      () =>
        table(
          t.piecesCaption(record.pieces.length, record.words.length, size),
          [t.piece, t.number, t.word],
          record.pieces.map((
            piece,
          ) => [word(piece.text, side), String(piece.id), word(record.words[piece.word].text, side)]),
        ),
    );
  }

  #word(unit, record, side) {
    const pieces = unit.pieces.map((i) =>
      make(
        "span",
        { class: "piece", "data-special": record.pieces[i].special },
        word(record.pieces[i].text, side),
        make("span", { class: "number piece-id" }, String(record.pieces[i].id)),
      )
    );
    return make("li", {}, pieces);
  }
}

export class EmbeddingStop {
  constructor(context) {
    this.context = context;
    this.strips = new Strips({ onPick: (index) => goToPiece(this.context, index) });
    this.panel = new Panel("embedding", this.strips.element);
    this.element = make("div", {}, this.panel.element);
  }

  update(context) {
    this.context = context;
    const { seen, t } = context;
    const { side, record } = inputSide(context);
    const chosen = pieceOf(context);
    const asked = quoted(record.pieces[chosen].text);
    const vectors = seen.embedding(side, "embedded");
    const root = Math.sqrt(seen.model.d_model);
    const likeness = record.pieces.map((_, i) => cosine(vectors.at(chosen), vectors.at(i)));
    const rows = record.pieces.map((piece, i) => ({
      label: piece.text,
      side,
      values: vectors.at(i),
      note: likeness[i].toFixed(2).replace("-", "−"),
      bold: i === chosen,
      special: piece.special,
    }));
    this.strips.update(rows, {
      label: t.embeddingLabel(asked),
      hint: t.embeddingHint(asked),
      describe: (i) =>
        t.embeddingAt(asked, i + 1, shown(vectors.at(chosen)[i] / root, 3), shown(root), shown(vectors.at(chosen)[i])),
    });
    this.panel.update(
      t.embeddingCaption(seen.model.d_model),
      t,
      () =>
        table(
          t.embeddingCaption(seen.model.d_model),
          [t.piece, t.length, t.likeness(asked)],
          record.pieces.map((piece, i) => [word(piece.text, side), shown(norm(vectors.at(i))), likeness[i].toFixed(2)]),
        ),
    );
  }
}

/** All places as rows, all numbers as columns: dark is +1, light is −1. */
class Waves {
  constructor({ onPick }) {
    this.canvas = new Canvas("waves-picture", (pen, w, h, colour) => this.#paint(pen, w, h, colour));
    this.element = make("div", { class: "waves" }, this.canvas.element);
    this.canvas.element.addEventListener(
      "click",
      (event) => onPick(Math.floor((event.offsetY / this.canvas.height) * this.rows.length)),
    );
    onWidth(this.element, (width) => this.#fit(width));
  }

  update(rows, marked) {
    this.rows = rows;
    this.marked = marked;
    this.#fit(this.element.clientWidth);
  }

  #fit(width) {
    if (this.rows && width) this.canvas.resize(width, Math.min(260, Math.max(120, this.rows.length * 6)));
  }

  #paint(pen, width, height, colour) {
    const [w, h] = [width / this.rows[0].length, height / this.rows.length];
    const ink = colour("ink");
    const top = Math.max(1, ...this.rows.map((row) => row.reduce((a, b) => Math.max(a, Math.abs(b)), 0)));
    this.rows.forEach((row, r) => {
      row.forEach((x, i) => {
        pen.fillStyle = rgba(ink, (x / top + 1) / 2);
        pen.fillRect(i * w, r * h, w + 0.5, h + 0.5);
      });
    });
    pen.strokeStyle = rgba(colour("attention"), 1);
    pen.lineWidth = 2;
    pen.strokeRect(1, this.marked * h, width - 2, Math.max(h, 3));
  }
}

export class PositionStop {
  constructor(context) {
    this.context = context;
    this.words = new Choice({
      name: "piece",
      kind: "sentence",
      onPick: (piece) => goToPiece(this.context, Number(piece)),
    });
    this.slider = new Slider({ name: "position", onSlide: (position) => this.#slide(position) });
    this.sum = new Strips();
    this.sumPanel = new Panel("sum", this.sum.element);
    this.waves = new Waves({ onPick: (position) => this.#slide(position) });
    this.wavesPanel = new Panel("waves", this.waves.element);
    this.element = make(
      "div",
      {},
      this.words.element,
      this.slider.element,
      this.sumPanel.element,
      this.wavesPanel.element,
    );
    this.moved = null;
  }

  #slide(position) {
    this.moved = position;
    this.update(this.context);
  }

  update(context) {
    const { seen, t } = context;
    const { side, record } = inputSide(context);
    const piece = pieceOf(context);
    if (this.context.seen !== seen || this.piece !== `${side}.${piece}`) this.moved = null;
    this.context = context;
    this.piece = `${side}.${piece}`;
    this.words.update(
      t.piece,
      record.pieces.map((one, i) => ({ value: i, text: one.text, side, special: one.special })),
      piece,
    );
    const waves = this.#waves(seen, side, record.pieces.length);
    const position = Math.min(this.moved ?? piece, waves.length - 1);
    this.slider.update(t.place, waves.length - 1, position, String(position));
    this.#showSum(context, side, record, piece, position, waves[position]);
    this.waves.update(waves, position);
    const sinusoidal = seen.model.positions === "sinusoidal";
    this.wavesPanel.update(
      t.wavesCaption(waves.length, sinusoidal),
      t,
      () =>
        table(
          t.wavesCaption(waves.length, sinusoidal),
          [t.place, t.likenessOfPlaces(position)],
          waves.map((wave, i) => [String(i), cosine(wave, waves[position]).toFixed(2)]),
        ),
    );
    put(this.waves.element, "role", "img");
    put(this.waves.element, "aria-label", t.wavesCaption(waves.length, sinusoidal));
  }

  /** The places that were used, and, where they are the paper's waves, as many beyond the sentence. */
  #waves(seen, side, n) {
    const used = seen.embedding(side, "position");
    const waves = Array.from({ length: n }, (_, i) => used.at(i));
    const runsOn = seen.model.positions === "sinusoidal" && seen.look.interventions.positions === "normal";
    const end = runsOn ? Math.max(2 * n, 32) : n;
    for (let i = n; i < end; i += 1) waves.push(sinusoid(i, seen.model.d_model));
    return waves;
  }

  #showSum({ seen, t }, side, record, piece, position, wave) {
    const embedded = seen.embedding(side, "embedded").at(piece);
    const isOwn = position === piece;
    const total = isOwn ? seen.embedding(side, "sum").at(piece) : Float32Array.from(embedded, (x, i) => x + wave[i]);
    const rows = [
      { label: record.pieces[piece].text, side, values: embedded, note: shown(norm(embedded)) },
      { label: t.placeN(position), sign: "+", values: wave, note: shown(norm(wave)) },
      { label: t.sum, sign: "=", values: total, note: shown(norm(total)), bold: true },
    ];
    this.sum.update(rows, {
      label: t.sumLabel,
      hint: t.sumHint,
      describe: (i) => `${i + 1}: ${shown(embedded[i])} + ${shown(wave[i])} = ${shown(total[i])}`,
    });
    const asked = quoted(record.pieces[piece].text);
    this.sumPanel.update(isOwn ? t.sumOwn(asked, position) : t.sumMoved(asked, piece, position), t);
  }
}
