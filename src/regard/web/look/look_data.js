// The data of a look: everything that the model computed for one sentence. Arrays are decoded on first use.

import { joinPieces, largestPiece, unitsOf } from "../words.js";
import { headKey } from "./head_key.js";
import { softmax } from "./math.js";

/** @import { Level, Sentence, Unit } from "../words.js" */
/** @import { Head } from "./head_key.js" */
/**
 * A head, and what the switch of the step changes in its softmax: "scale" is the other choice about ÷ √d_k, "mask" none.
 * @typedef {Head & { switched?: string }} SwitchedHead
 */

export const ATTENTION_KINDS = ["encoder", "decoder", "cross"];

/** A shape and its numbers, row-major. */
export class Tensor {
  /**
   * @param {number[]} shape
   * @param {Float32Array} numbers
   */
  constructor(shape, numbers) {
    this.shape = shape;
    this.numbers = numbers;
  }

  /**
   * The sub-array (a view, not a copy) at these indices, or one number if there is an index for each dimension.
   * @param {...number} indices
   * @returns {any}
   */
  at(...indices) {
    let size = this.numbers.length;
    let start = 0;
    indices.forEach((index, i) => {
      size /= this.shape[i];
      start += index * size;
    });
    if (indices.length === this.shape.length) return this.numbers[start];
    return this.numbers.subarray(start, start + size);
  }
}

/**
 * An array of the JSON, as nested lists or as base64 of little-endian float32 with a shape; null stays null.
 * @param {any} array
 */
export function decodeArray(array) {
  if (array === null || array === undefined) return null;
  if (!Array.isArray(array)) return new Tensor(array.shape, decodeBase64(array.float32));
  const shape = [];
  for (let part = array; Array.isArray(part); part = part[0]) shape.push(part.length);
  return new Tensor(shape, Float32Array.from(array.flat(shape.length)));
}

function decodeBase64(/** @type {string} */ text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < characters.length; i += 1) bytes[i] = characters.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  const numbers = new Float32Array(bytes.length / 4);
  for (let i = 0; i < numbers.length; i += 1) numbers[i] = view.getFloat32(4 * i, true);
  return numbers;
}

/**
 * Whether a look is of a Transformer, with everything that the steps of the walk explain.
 * @param {any} look
 */
export const isTransformerLook = ({ attentions = [] }) =>
  ATTENTION_KINDS.every((kind) => attentions.some(({ attention, q }) => attention === kind && q));

/** One look. Shapes: H heads, T queries, S keys, K d_k, D d_model. `kind` is encoder, decoder or cross. */
export class LookData {
  #decoded = new Map();
  #unitLists = new Map();

  /** @param {any} look JSON of /v1/look */
  constructor(look) {
    this.look = look;
    this.model = look.model;
    this.off = new Set(look.interventions.heads_off.map(headKey));
  }

  /**
   * @param {string} key
   * @param {Record<string, any>} record
   * @param {string} name
   */
  #array(key, record, name) {
    if (!this.#decoded.has(key)) this.#decoded.set(key, decodeArray(record[name]));
    return this.#decoded.get(key);
  }

  /**
   * @param {string} kind
   * @param {number} layer
   * @param {"q" | "k" | "v" | "scores" | "scaled" | "visible" | "weights" | "heads"} name
   */
  attention(kind, layer, name) {
    const record = this.look.attentions.find((record) => record.attention === kind && record.layer === layer);
    return this.#array(`${kind}.${layer}.${name}`, record, name);
  }

  /**
   * @param {string} stack
   * @param {number} layer
   * @param {string} part self, cross or feed_forward
   * @param {"added" | "after" | "norm_before" | "norm_added" | "norm_after"} name
   */
  sublayer(stack, layer, part, name) {
    const record = this.look.sublayers.find((record) =>
      record.stack === stack && record.layer === layer && record.name === part
    );
    return this.#array(`${stack}.${layer}.${part}.${name}`, record, name);
  }

  /** The feed-forward units after the activation, (T, d_ff). */
  hidden(/** @type {string} */ stack, /** @type {number} */ layer) {
    const record = this.look.feed_forward.find((record) => record.stack === stack && record.layer === layer);
    return this.#array(`${stack}.${layer}.hidden`, record, "hidden");
  }

  /**
   * @param {string} side
   * @param {"embedded" | "position" | "sum"} name
   */
  embedding(side, name) {
    return this.#array(`${side}.${name}`, this.look.embedding[side], name);
  }

  /** The residual stream before a sub-layer, (T, D). */
  residualStream(/** @type {string} */ stack, /** @type {number} */ layer, /** @type {string} */ part) {
    const parts = partsOf(stack);
    const previous = parts.indexOf(part) - 1;
    if (previous >= 0) return this.sublayer(stack, layer, parts[previous], "after");
    if (layer > 0) return this.sublayer(stack, layer - 1, "feed_forward", "after");
    return this.embedding(sideOfStack(stack), "sum");
  }

  nLayers(/** @type {string} */ kind) {
    return kind === "encoder" ? this.model.n_encoder_layers : this.model.n_decoder_layers;
  }

  /** Whether scores are divided by √d_k in this look. */
  get divides() {
    return this.model.attention === "scaled_dot_product" && this.look.interventions.scale;
  }

  /**
   * The sentence of the queries. The rows of cross attention are named after the piece that is produced there.
   * @param {string} kind
   * @returns {Sentence}
   */
  querySide(kind) {
    if (kind === "encoder") return this.look.source;
    return kind === "decoder" ? this.look.target.inputs : this.look.target.outputs;
  }

  /**
   * The sentence of the keys and values.
   * @param {string} kind
   * @returns {Sentence}
   */
  keySide(kind) {
    return kind === "decoder" ? this.look.target.inputs : this.look.source;
  }

  /**
   * @param {string} kind
   * @param {Level} level
   */
  rows(kind, level) {
    return this.#units(this.querySide(kind), level);
  }

  /**
   * @param {string} kind
   * @param {Level} level
   */
  columns(kind, level) {
    return this.#units(this.keySide(kind), level);
  }

  /**
   * The same array every time, so that a figure can tell whether its labels have changed.
   * @param {Sentence} sentence
   * @param {Level} level
   * @returns {Unit[]}
   */
  #units(sentence, level) {
    const lists = this.#unitLists.get(sentence) ?? {};
    lists[level] ??= unitsOf(sentence, level);
    this.#unitLists.set(sentence, lists);
    return lists[level];
  }

  /** The kind of attention as the texts name it: "unmasked" for the decoder's own while the mask is lifted. */
  nameOf(/** @type {string} */ kind, { switched = "" } = {}) {
    const lifted = kind === "decoder" && (switched === "mask" || !this.look.interventions.mask);
    return lifted ? "unmasked" : kind;
  }

  /** The same with the switch of the step. */
  dividesAt(/** @type {{ switched?: string }} */ { switched }) {
    return this.model.attention !== "additive" && this.divides !== (switched === "scale");
  }

  /**
   * The softmax of one query over all keys, between pieces: as computed, or with the switch of the step.
   * @param {SwitchedHead} head
   * @param {number} query
   */
  row({ attention, layer, head, switched }, query) {
    const array = (name) => this.attention(attention, layer, name);
    /** @type {Float32Array} */
    const scores = array("scores").at(head, query);
    /** @type {Float32Array | null} */
    const visible = switched === "mask" ? null : array("visible")?.at(query) ?? null;
    /** @type {Float32Array} */
    let scaled = array("scaled").at(head, query);
    if (switched === "scale") scaled = this.divides ? scores : scores.map((x) => x / Math.sqrt(this.model.d_k));
    /** @type {Float32Array} */
    const weights = switched ? softmax(scaled, visible) : array("weights").at(head, query);
    return { scores, scaled, visible, weights };
  }

  /** Something of every query's softmax, row-major. */
  #matrix(/** @type {SwitchedHead} */ head, /** @type {"scaled" | "weights"} */ name) {
    const { length } = this.querySide(head.attention).pieces;
    const rows = Array.from({ length }, (_, query) => this.row(head, query)[name]);
    const matrix = new Float32Array(length * rows[0].length);
    rows.forEach((row, i) => matrix.set(row, i * row.length));
    return matrix;
  }

  /**
   * The weights at a level, row-major (rows × columns).
   * @param {SwitchedHead} head
   * @param {Level} level
   */
  weights(head, level) {
    const pieces = this.#matrix(head, "weights");
    return level === "pieces" ? pieces : this.#joined(joinPieces, pieces, head.attention);
  }

  /**
   * The scores before the softmax; between words, the largest of the pair's pieces.
   * @param {SwitchedHead} head
   * @param {Level} level
   */
  scores(head, level) {
    const pieces = this.#matrix(head, "scaled");
    return level === "pieces" ? pieces : this.#joined(largestPiece, pieces, head.attention);
  }

  /**
   * 0 where the mask hides the key, or null if nothing is hidden.
   * @param {SwitchedHead} head
   * @param {Level} level
   */
  visible({ attention, layer, switched }, level) {
    const pieces = this.attention(attention, layer, "visible");
    if (switched === "mask" || pieces === null || pieces.numbers.every((x) => x > 0)) return null;
    return level === "pieces" ? pieces.numbers : this.#joined(largestPiece, pieces.numbers, attention);
  }

  #joined(join, pieces, kind) {
    return join(pieces, this.keySide(kind).pieces.length, this.rows(kind, "words"), this.columns(kind, "words"));
  }
}

/** The sub-layers of a layer, in order. */
export function partsOf(/** @type {string} */ stack) {
  return stack === "encoder" ? ["self", "feed_forward"] : ["self", "cross", "feed_forward"];
}

/** The stack that an attention belongs to. */
export function stackOf(/** @type {string} */ kind) {
  return kind === "encoder" ? "encoder" : "decoder";
}

/** The sentence that a stack reads. */
export function sideOfStack(/** @type {string} */ stack) {
  return stack === "encoder" ? "source" : "target";
}

/** The languages of queries (rows) and keys (columns). */
export function sidesOf(/** @type {string} */ kind) {
  return { rows: kind === "encoder" ? "source" : "target", columns: kind === "decoder" ? "target" : "source" };
}

/** The kind of attention of a sub-layer. */
export function attentionKind(/** @type {string} */ stack, /** @type {string} */ part) {
  if (stack === "encoder") return "encoder";
  return part === "cross" ? "cross" : "decoder";
}
