// Figure 1 of the paper as a list: the blocks of this model, in the order in which data flows through them.

import { attentionKind, partsOf, stackOf } from "../look_data.js";
import { stepName } from "../place.js";

/** @import { Place } from "../place.js" */

/**
 * @typedef {object} Block
 * @property {string} id
 * @property {string} kind
 * @property {string} stack
 * @property {number} [layer]
 * @property {string} [part] the sub-layer
 * @property {string} [near] the id of the block that it belongs to
 * @property {(place: Place) => Record<string, any>} go the change of place that opens it
 */

/** Opens an attention at the current step if that step is about attention, else at the step that explains it best. */
function openAttention(attention, layer) {
  return (place) => {
    const step = stepName(place);
    const keeps = ["qkv", "scores", "softmax", "values", "heads"].includes(step);
    const best = { encoder: "softmax", decoder: "masked", cross: "cross" }[attention];
    return { step: keeps ? step : best, attention, layer };
  };
}

/** @returns {Block[]} */
function inputBlocks(/** @type {string} */ stack) {
  return ["pieces", "embedding", "position"].map((kind) => ({
    id: `${stack}.${kind}`,
    kind,
    stack,
    go: () => ({ step: kind, attention: stack }),
  }));
}

function partBlocks(stack, layer, part, pre) {
  const attention = attentionKind(stack, part);
  const id = `${stack}.${layer}.${part}`;
  const beside = {
    stack,
    layer,
    part,
    go: () => ({ step: "residual", attention, layer, part: part === "feed_forward" ? part : "attention" }),
  };
  const open = part === "feed_forward"
    ? () => ({ step: "feed_forward", attention, layer })
    : openAttention(attention, layer);
  const blocks = [
    { id, kind: part, stack, layer, part, go: open },
    { id: `${id}.add`, kind: pre ? "add" : "add_norm", ...beside, near: id },
  ];
  return pre ? [{ id: `${id}.norm`, kind: "norm", ...beside, near: id }, ...blocks] : blocks;
}

function stackBlocks(stack, model) {
  const blocks = inputBlocks(stack);
  const n = stack === "encoder" ? model.n_encoder_layers : model.n_decoder_layers;
  const pre = model.norm === "pre";
  for (let layer = 0; layer < n; layer += 1) {
    for (const part of partsOf(stack)) blocks.push(...partBlocks(stack, layer, part, pre));
    blocks.push({
      id: `${stack}.${layer}`,
      kind: "layer",
      stack,
      layer,
      go: () => ({ step: "layers", attention: stack, layer }),
    });
  }
  // with pre-norm, the last sum is not normalised yet
  if (pre) {
    blocks.push({
      id: `${stack}.norm`,
      kind: "norm",
      stack,
      go: () => ({ step: "residual", attention: stack, layer: n - 1, part: "feed_forward" }),
    });
  }
  return blocks;
}

/**
 * Bottom to top of the encoder, then bottom to top of the decoder.
 * @param {any} model
 * @returns {Block[]}
 */
export function blocksOf(model) {
  return [
    ...stackBlocks("encoder", model),
    ...stackBlocks("decoder", model),
    { id: "linear", kind: "linear", stack: "decoder", go: () => ({ step: "vocabulary" }) },
    { id: "softmax", kind: "softmax", stack: "decoder", go: () => ({ step: "vocabulary" }) },
    { id: "output", kind: "output", stack: "decoder", go: () => ({ step: "beam" }) },
  ];
}

/**
 * The id of the block that a place belongs to.
 * @param {Place} place
 */
export function blockOf(place) {
  const step = stepName(place);
  const stack = stackOf(place.attention);
  const part = place.attention === "cross" ? "cross" : "self";
  if (["pieces", "embedding", "position"].includes(step)) return `${stack}.${step}`;
  if (step === "residual") {
    return `${stack}.${place.layer}.${place.part === "feed_forward" ? "feed_forward" : part}.add`;
  }
  if (step === "feed_forward") return `${stack}.${place.layer}.feed_forward`;
  if (step === "layers") return `${stack}.${place.layer}`;
  if (step === "vocabulary") return "softmax";
  if (["beam", "quiz"].includes(step)) return "output";
  return `${stack}.${place.layer}.${part}`;
}
