// A look, with its arrays decoded when they are first asked for.

import { decode } from "./arrays.js";
import { softmax } from "./numbers.js";
import { joinPieces, largestPiece, unitsOf } from "./words.js";

export const USES = ["encoder", "decoder", "cross"];

/** Everything that the model computed for one sentence; H heads, T queries, S keys, K d_k, D d_model. */
export class Seen {
  #decoded = new Map();
  #unitLists = new Map();

  constructor(look) {
    this.look = look;
    this.model = look.model;
    this.off = new Set(look.interventions.heads_off.map(headKey));
  }

  #once(key, source, name) {
    if (!this.#decoded.has(key)) this.#decoded.set(key, decode(source[name]));
    return this.#decoded.get(key);
  }

  /** name: q, k, v, scores, scaled, visible, weights, heads. */
  attention(use, layer, name) {
    const found = this.look.attentions.find((one) => one.attention === use && one.layer === layer);
    return this.#once(`${use}.${layer}.${name}`, found, name);
  }

  /** name: added, after, norm_before, norm_added, norm_after. */
  sublayer(stack, layer, part, name) {
    const found = this.look.sublayers.find((one) => one.stack === stack && one.layer === layer && one.name === part);
    return this.#once(`${stack}.${layer}.${part}.${name}`, found, name);
  }

  hidden(stack, layer) {
    const found = this.look.feed_forward.find((one) => one.stack === stack && one.layer === layer);
    return this.#once(`${stack}.${layer}.hidden`, found, "hidden");
  }

  /** name: embedded, position, sum. */
  embedding(side, name) {
    return this.#once(`${side}.${name}`, this.look.embedding[side], name);
  }

  /** What goes into a sub-layer: the sum of everything before it, (T, D). */
  stream(stack, layer, part) {
    const parts = partsOf(stack);
    const before = parts.indexOf(part) - 1;
    if (before >= 0) return this.sublayer(stack, layer, parts[before], "after");
    if (layer > 0) return this.sublayer(stack, layer - 1, "feed_forward", "after");
    return this.embedding(sideOfStack(stack), "sum");
  }

  nLayers(use) {
    return use === "encoder" ? this.model.n_encoder_layers : this.model.n_decoder_layers;
  }

  /** Whether scores are divided by √d_k in this look. */
  get divides() {
    return this.model.attention === "scaled_dot_product" && this.look.interventions.scale;
  }

  /** {pieces, words} of the queries. Cross attention's rows are named by what is produced there. */
  querySide(use) {
    if (use === "encoder") return this.look.source;
    return use === "decoder" ? this.look.target.inputs : this.look.target.outputs;
  }

  keySide(use) {
    return use === "decoder" ? this.look.target.inputs : this.look.source;
  }

  rows(use, level) {
    return this.#units(this.querySide(use), level);
  }

  columns(use, level) {
    return this.#units(this.keySide(use), level);
  }

  /** The same list each time, so that a picture can see that its labels have not changed. */
  #units(side, level) {
    const kept = this.#unitLists.get(side) ?? {};
    kept[level] ??= unitsOf(side, level);
    this.#unitLists.set(side, kept);
    return kept[level];
  }

  /** One head's weights between pieces, as computed, or with one step of the softmax changed: {scale, mask}. */
  pieceWeights({ attention, layer, head }, change = {}) {
    if (!change.scale && !change.mask) return this.attention(attention, layer, "weights").at(head);
    const scores = this.attention(attention, layer, change.scale ? "scores" : "scaled").at(head);
    const factor = change.scale && !this.divides ? this.model.d_k ** -0.5 : 1;
    const visible = change.mask ? null : this.attention(attention, layer, "visible");
    const nColumns = this.keySide(attention).pieces.length;
    const weights = new Float32Array(scores.length);
    for (let row = 0; row * nColumns < scores.length; row += 1) {
      const part = scores.subarray(row * nColumns, (row + 1) * nColumns).map((x) => x * factor);
      weights.set(softmax(part, visible?.at(row)), row * nColumns);
    }
    return weights;
  }

  /** The same at a level, row-major (rows × columns). */
  weights(where, level, change = {}) {
    const pieces = this.pieceWeights(where, change);
    if (level === "pieces") return pieces;
    return this.#joined(joinPieces, pieces, where.attention);
  }

  /** Scores divided (or not) by √d_k; at word level the largest of a pair's pieces. */
  scores(where, level, name = "scaled") {
    const pieces = this.attention(where.attention, where.layer, name).at(where.head);
    return level === "pieces" ? pieces : this.#joined(largestPiece, pieces, where.attention);
  }

  /** 0 where the mask hides, or null where nothing is hidden. */
  visible(where, level) {
    const pieces = this.attention(where.attention, where.layer, "visible");
    if (pieces === null || pieces.numbers.every((x) => x > 0)) return null;
    return level === "pieces" ? pieces.numbers : this.#joined(largestPiece, pieces.numbers, where.attention);
  }

  #joined(join, pieces, use) {
    return join(pieces, this.keySide(use).pieces.length, this.rows(use, "words"), this.columns(use, "words"));
  }
}

/** "encoder.0.3": how a head is named in sets and maps. */
export function headKey({ attention, layer, head }) {
  return `${attention}.${layer}.${head}`;
}

/** The sub-layers of a layer in the data's order. */
export function partsOf(stack) {
  return stack === "encoder" ? ["self", "feed_forward"] : ["self", "cross", "feed_forward"];
}

export function stackOf(use) {
  return use === "encoder" ? "encoder" : "decoder";
}

export function sideOfStack(stack) {
  return stack === "encoder" ? "source" : "target";
}

/** Which language a query or a key is of. */
export function sidesOf(use) {
  return { rows: use === "encoder" ? "source" : "target", columns: use === "decoder" ? "target" : "source" };
}

/** The attention (use) that a sub-layer of a stack is. */
export function useOf(stack, part) {
  if (stack === "encoder") return "encoder";
  return part === "cross" ? "cross" : "decoder";
}
