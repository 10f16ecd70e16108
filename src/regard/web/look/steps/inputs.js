// Steps 1 to 3: pieces, embeddings, positional encodings.

import { isolated, make, setAttribute, table, wordElement } from "../../dom.js";
import { formatNumber } from "../../format.js";
import { t } from "../../texts/texts.js";
import { Canvas, onWidth, rgba } from "../canvas.js";
import { Choice, Slider } from "../choice.js";
import { sideOfStack, stackOf } from "../look_data.js";
import { cosine, norm, sinusoid } from "../math.js";
import { Panel } from "../panel.js";
import { VectorBars } from "../vector_bars.js";

/** @import { StepContext } from "../look_panel.js" */
/** @import { LookData } from "../look_data.js" */
/** @import { Place } from "../place.js" */

/**
 * The sentence that goes into the selected stack: the source, or what the decoder is given.
 * @param {{ data: LookData, place: Place }} context
 */
function inputSide({ data, place }) {
  const side = sideOfStack(stackOf(place.attention));
  return { side, sentence: side === "source" ? data.look.source : data.look.target.inputs };
}

/** The index of the selected piece; for a word, its first piece. */
function pieceOf({ data, place }) {
  const { sentence } = inputSide({ data, place });
  const at = place.level === "words" ? (sentence.words[place.row]?.pieces[0] ?? 0) : place.row;
  return Math.min(at, sentence.pieces.length - 1);
}

/**
 * @param {StepContext} context
 * @param {number} piece
 */
function goToPiece(context, piece) {
  const { sentence } = inputSide(context);
  context.go({ row: context.place.level === "words" ? sentence.pieces[piece].word : piece });
}

export class PiecesStep {
  constructor() {
    this.list = make("ol", { class: "pieces" });
    this.panel = new Panel("pieces", this.list);
    this.element = make("div", {}, this.panel.element);
  }

  /** @param {StepContext} context */
  update(context) {
    const { data } = context;
    const { side, sentence } = inputSide(context);
    const size = side === "source" ? data.model.n_src_symbols : data.model.n_tgt_symbols;
    this.list.replaceChildren(...sentence.words.map((unit) => this.#word(unit, sentence, side)));
    this.panel.update(
      t("look.tokensCaption", sentence.pieces.length, sentence.words.length, size),
      () =>
        table(
          t("look.tokensCaption", sentence.pieces.length, sentence.words.length, size),
          [t("look.token"), t("look.tokenId"), t("look.word")],
          sentence.pieces.map((
            piece,
          ) => [wordElement(piece.text, side), String(piece.id), wordElement(sentence.words[piece.word].text, side)]),
        ),
    );
  }

  #word(unit, sentence, side) {
    const pieces = unit.pieces.map((i) =>
      make(
        "span",
        { class: "piece", "data-special": sentence.pieces[i].special },
        wordElement(sentence.pieces[i].text, side),
        make("span", { class: "number piece-id" }, String(sentence.pieces[i].id)),
      )
    );
    return make("li", {}, pieces);
  }
}

export class EmbeddingStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.vectors = new VectorBars({ onPick: (index) => goToPiece(this.context, index) });
    this.panel = new Panel("embedding", this.vectors.element);
    this.element = make("div", {}, this.panel.element);
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data } = context;
    const { side, sentence } = inputSide(context);
    const chosen = pieceOf(context);
    const selectedText = isolated(sentence.pieces[chosen].text);
    const vectors = data.embedding(side, "embedded");
    const root = Math.sqrt(data.model.d_model);
    const similarity = sentence.pieces.map((_, i) => cosine(vectors.at(chosen), vectors.at(i)));
    const rows = sentence.pieces.map((piece, i) => ({
      label: piece.text,
      side,
      values: vectors.at(i),
      note: similarity[i].toFixed(2).replace("-", "−"),
      bold: i === chosen,
      special: piece.special,
    }));
    this.vectors.update(rows, {
      label: t("look.embeddingLabel", selectedText),
      hint: t("look.embeddingHint", selectedText),
      describe: (i) =>
        t(
          "look.embeddingAt",
          selectedText,
          i + 1,
          formatNumber(vectors.at(chosen)[i] / root, 3),
          formatNumber(root),
          formatNumber(vectors.at(chosen)[i]),
        ),
    });
    this.panel.update(
      t("look.embeddingCaption", data.model.d_model),
      () =>
        table(
          t("look.embeddingCaption", data.model.d_model),
          [t("look.token"), t("look.length"), t("look.similarity", selectedText)],
          sentence.pieces.map((
            piece,
            i,
          ) => [wordElement(piece.text, side), formatNumber(norm(vectors.at(i))), similarity[i].toFixed(2)]),
        ),
    );
  }
}

/** Positional encodings: one row per position, one column per dimension; full ink is the largest value. */
class PositionGrid {
  /** @param {{ onPick: (position: number) => void }} callbacks */
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

export class PositionStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.words = new Choice({
      name: "piece",
      kind: "sentence",
      onPick: (piece) => goToPiece(this.context, Number(piece)),
    });
    this.slider = new Slider({ name: "position", onSlide: (position) => this.#slide(position) });
    this.sum = new VectorBars();
    this.sumPanel = new Panel("sum", this.sum.element);
    this.waves = new PositionGrid({ onPick: (position) => this.#slide(position) });
    this.wavesPanel = new Panel("waves", this.waves.element);
    this.element = make(
      "div",
      {},
      this.words.element,
      this.slider.element,
      this.sumPanel.element,
      this.wavesPanel.element,
    );
  }

  #slide(position) {
    this.context.go({ position });
  }

  /** @param {StepContext} context */
  update(context) {
    const { data } = context;
    const { side, sentence } = inputSide(context);
    const piece = pieceOf(context);
    this.context = context;
    this.words.update(
      t("look.token"),
      sentence.pieces.map(({ text, special }, i) => ({ value: i, text, side, special })),
      piece,
    );
    const waves = this.#encodings(data, side, sentence.pieces.length);
    const position = Math.min(context.place.position ?? piece, waves.length - 1);
    this.slider.update(t("look.position"), waves.length - 1, position, String(position));
    this.#showSum(context, side, sentence, piece, position, waves[position]);
    this.waves.update(waves, position);
    const sinusoidal = data.model.positions === "sinusoidal";
    this.wavesPanel.update(
      t("look.wavesCaption", waves.length, sinusoidal),
      () =>
        table(
          t("look.wavesCaption", waves.length, sinusoidal),
          [t("look.position"), t("look.similarityToPosition", position)],
          waves.map((wave, i) => [String(i), cosine(wave, waves[position]).toFixed(2)]),
        ),
    );
    setAttribute(this.waves.element, "role", "img");
    setAttribute(this.waves.element, "aria-label", t("look.wavesCaption", waves.length, sinusoidal));
  }

  /** The encodings that were used and, if they are sinusoidal, some beyond the end of the sentence. */
  #encodings(data, side, n) {
    const used = data.embedding(side, "position");
    const waves = Array.from({ length: n }, (_, i) => used.at(i));
    const continues = data.model.positions === "sinusoidal" && data.look.interventions.positions === "normal";
    const end = continues ? Math.max(2 * n, 32) : n;
    for (let i = n; i < end; i += 1) waves.push(sinusoid(i, data.model.d_model));
    return waves;
  }

  #showSum({ data }, side, sentence, piece, position, wave) {
    const embedded = data.embedding(side, "embedded").at(piece);
    const isOwn = position === piece;
    const total = isOwn ? data.embedding(side, "sum").at(piece) : Float32Array.from(embedded, (x, i) => x + wave[i]);
    const rows = [
      { label: sentence.pieces[piece].text, side, values: embedded, note: formatNumber(norm(embedded)) },
      { label: t("look.positionN", position), sign: "+", values: wave, note: formatNumber(norm(wave)) },
      { label: t("look.sum"), sign: "=", values: total, note: formatNumber(norm(total)), bold: true },
    ];
    this.sum.update(rows, {
      label: t("look.sumLabel"),
      hint: t("look.sumHint"),
      describe: (i) => `${i + 1}: ${formatNumber(embedded[i])} + ${formatNumber(wave[i])} = ${formatNumber(total[i])}`,
    });
    const selectedText = isolated(sentence.pieces[piece].text);
    this.sumPanel.update(
      isOwn ? t("look.sumOwn", selectedText, position) : t("look.sumMoved", selectedText, piece, position),
    );
  }
}
