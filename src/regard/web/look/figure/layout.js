// The layout of Figure 1: tall, as in the paper, or two rows for a narrow screen.

/** @import { Block } from "./blocks.js" */
/** @typedef {{ x: number, y: number, w: number, h: number }} Box */
/** @typedef {{ kind: "tall" | "narrow", width: number, height: number, boxes: Map<string, Box> }} Layout by block id */

const TALL = {
  width: 336,
  block: 134,
  x: { encoder: 22, decoder: 180 },
  height: {
    pieces: 20,
    embedding: 24,
    position: 20,
    norm: 13,
    self: 26,
    cross: 26,
    feed_forward: 24,
    add: 13,
    add_norm: 15,
    linear: 22,
    softmax: 24,
    output: 20,
  },
  gap: 5,
  layerGap: 15,
  shapeGap: 12, // above the inputs, for the shape of what flows up
};

/** The scale of the blocks: deep models are drawn smaller. */
function scaleFor(/** @type {number} */ nLayers) {
  if (nLayers <= 4) return 1;
  return nLayers <= 6 ? 0.8 : 0.68;
}

/** In deep models, normalisation and addition are thin lines without a name. */
function heightOf(kind, scale) {
  const isThin = ["norm", "add", "add_norm"].includes(kind);
  return isThin && scale < 1 ? 7 : Math.round(TALL.height[kind] * scale);
}

/**
 * From the bottom up.
 * @param {Block[]} blocks
 * @param {number} nLayers
 * @returns {Layout}
 */
export function tallLayout(blocks, nLayers) {
  const scale = scaleFor(nLayers);
  /** @type {Map<string, any>} */
  const boxes = new Map();
  const tops = { encoder: 0, decoder: 0 };
  const starts = {};
  for (const block of blocks) {
    const x = TALL.x[block.stack];
    if (block.kind === "layer") {
      const from = starts[`${block.stack}.${block.layer}`];
      boxes.set(block.id, {
        x: x - 7,
        w: TALL.block + 14,
        from: from - 5,
        to: tops[block.stack] - 1.6 * TALL.gap * scale + 6,
      });
      tops[block.stack] += (TALL.layerGap - TALL.gap) * scale + 2;
      continue;
    }
    const key = `${block.stack}.${block.layer}`;
    if (block.layer !== undefined && !(key in starts)) {
      if (block.layer === 0) tops[block.stack] += 6;
      starts[key] = tops[block.stack];
    }
    const h = block.layer === undefined ? TALL.height[block.kind] : heightOf(block.kind, scale);
    boxes.set(block.id, { x, w: TALL.block, from: tops[block.stack], to: tops[block.stack] + h });
    const ends = block.kind === "add" || block.kind === "add_norm";
    if (block.kind === "position") tops[block.stack] += TALL.shapeGap;
    tops[block.stack] += h + TALL.gap * (block.layer === undefined ? 1.4 : ends ? 1.6 * scale : scale * 0.8);
  }
  const height = Math.round(Math.max(tops.encoder + 24, tops.decoder)) + 4;
  for (const [id, { x, w, from, to }] of boxes) boxes.set(id, { x, w, y: height - 2 - to, h: to - from });
  return { kind: "tall", width: TALL.width, height, boxes };
}

const NARROW = {
  pieces: 26,
  embedding: 30,
  position: 22,
  self: 26,
  cross: 30,
  feed_forward: 22,
  linear: 0,
  softmax: 46,
  output: 32,
};

/**
 * Two rows, the encoder above; without the blocks for normalisation and addition.
 * @param {Block[]} blocks
 * @returns {Layout}
 */
export function narrowLayout(blocks) {
  /** @type {Map<string, any>} */
  const boxes = new Map();
  const ends = { encoder: 2, decoder: 2 };
  const y = { encoder: 15, decoder: 71 };
  let layerStart = 0;
  for (const block of blocks) {
    if (block.kind === "layer") {
      boxes.set(block.id, {
        x: layerStart - 3,
        y: y[block.stack] - 14,
        w: ends[block.stack] - 2 - layerStart + 6,
        h: 44,
      });
      ends[block.stack] += 6;
      continue;
    }
    const w = NARROW[block.kind];
    if (!w) continue;
    if (block.kind === "self") layerStart = ends[block.stack] += 3;
    boxes.set(block.id, { x: ends[block.stack], y: y[block.stack], w, h: 26 });
    ends[block.stack] += w + 2;
  }
  return { kind: "narrow", width: Math.max(ends.encoder + 12, ends.decoder), height: 102, boxes };
}
