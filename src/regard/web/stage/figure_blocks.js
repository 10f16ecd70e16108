// Figure 1 of the paper as a list: this model's own blocks in the order that the data takes.

import { STOPS } from "./place.js";
import { partsOf, stackOf, useOf } from "./seen.js";

const FIRST_USE = { encoder: "encoder", decoder: "decoder" };

/** Opening an attention keeps the step of it that the reader is at; from elsewhere it opens where it is told best. */
function openAttention(attention, layer) {
  return (place) => {
    const stop = STOPS[place.stop - 1];
    const keeps = ["qkv", "scores", "softmax", "values", "heads"].includes(stop);
    const best = { encoder: "softmax", decoder: "masked", cross: "cross" }[attention];
    return { stop: keeps ? stop : best, attention, layer };
  };
}

function inputBlocks(stack) {
  const attention = FIRST_USE[stack];
  return ["pieces", "embedding", "position"].map((kind) => ({
    id: `${stack}.${kind}`,
    kind,
    stack,
    go: () => ({ stop: kind, attention }),
  }));
}

function partBlocks(stack, layer, part, pre) {
  const attention = useOf(stack, part);
  const id = `${stack}.${layer}.${part}`;
  const beside = {
    stack,
    layer,
    part,
    go: () => ({ stop: "residual", attention, layer, part: part === "feed_forward" ? part : "attention" }),
  };
  const open = part === "feed_forward"
    ? () => ({ stop: "feed_forward", attention, layer })
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
      go: () => ({ stop: "layers", attention: FIRST_USE[stack], layer }),
    });
  }
  // pre-norm leaves the last sum as it is, so the stack ends with one normalisation more
  if (pre) {
    blocks.push({
      id: `${stack}.norm`,
      kind: "norm",
      stack,
      go: () => ({ stop: "residual", attention: FIRST_USE[stack], layer: n - 1, part: "feed_forward" }),
    });
  }
  return blocks;
}

/** Bottom to top of the encoder, then bottom to top of the decoder. */
export function blocksOf(model) {
  return [
    ...stackBlocks("encoder", model),
    ...stackBlocks("decoder", model),
    { id: "linear", kind: "linear", stack: "decoder", go: () => ({ stop: "vocabulary" }) },
    { id: "softmax", kind: "softmax", stack: "decoder", go: () => ({ stop: "vocabulary" }) },
    { id: "output", kind: "output", stack: "decoder", go: () => ({ stop: "beam" }) },
  ];
}

/** The block that a place belongs to. */
export function blockOf(place) {
  const stop = STOPS[place.stop - 1];
  const stack = stackOf(place.attention);
  const part = place.attention === "cross" ? "cross" : "self";
  if (["pieces", "embedding", "position"].includes(stop)) return `${stack}.${stop}`;
  if (stop === "residual") {
    return `${stack}.${place.layer}.${place.part === "feed_forward" ? "feed_forward" : part}.add`;
  }
  if (stop === "feed_forward") return `${stack}.${place.layer}.feed_forward`;
  if (stop === "layers") return `${stack}.${place.layer}`;
  if (stop === "vocabulary") return "softmax";
  if (stop === "beam") return "output";
  return `${stack}.${place.layer}.${part}`;
}
