// The name of a head in sets, maps and addresses: "encoder.0.3" is head 3 of layer 0 of the encoder, counted from 0.

/** @typedef {{ attention: string, layer: number, head: number }} Head */

/** @param {Head} head */
export function headKey({ attention, layer, head }) {
  return `${attention}.${layer}.${head}`;
}

/**
 * @param {string} key
 * @returns {Head}
 */
export function parseHeadKey(key) {
  const [attention, layer, head] = key.split(".");
  return { attention, layer: Number(layer), head: Number(head) };
}
