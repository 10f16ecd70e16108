// The arithmetic that the figures do themselves.

/** @typedef {ArrayLike<number> & Iterable<number>} Vector */

/**
 * @param {Vector} a
 * @param {Vector} b
 */
export function dot(a, b) {
  let total = 0;
  for (let i = 0; i < a.length; i += 1) total += a[i] * b[i];
  return total;
}

/** @param {Vector} a */
export function norm(a) {
  return Math.sqrt(dot(a, a));
}

/**
 * Cosine similarity: 1 for the same direction, 0 for orthogonal vectors.
 * @param {Vector} a
 * @param {Vector} b
 */
export function cosine(a, b) {
  return dot(a, b) / (norm(a) * norm(b) || 1);
}

/** @param {Vector} a */
export function mean(a) {
  let total = 0;
  for (const x of a) total += x;
  return total / (a.length || 1);
}

/**
 * Standard deviation as in layer normalisation (not Bessel-corrected).
 * @param {Vector} a
 */
export function standardDeviation(a) {
  const average = mean(a);
  let total = 0;
  for (const x of a) total += (x - average) ** 2;
  return Math.sqrt(total / (a.length || 1));
}

/**
 * The largest absolute value.
 * @param {Vector} a
 */
export function maxAbs(a) {
  let largest = 0;
  for (const x of a) largest = Math.max(largest, Math.abs(x));
  return largest;
}

/** @param {Vector} a */
export function argmax(a) {
  let best = 0;
  for (let i = 1; i < a.length; i += 1) if (a[i] > a[best]) best = i;
  return best;
}

/**
 * In nats: 0 if all weight is on one position, ln n if it is spread evenly over n.
 * @param {Vector} weights
 */
export function entropy(weights) {
  let total = 0;
  for (const p of weights) if (p > 0) total -= p * Math.log(p);
  return total;
}

/**
 * Σ p (1 − p), the trace of the softmax's derivative: how much the weights react to the scores; 0 if one has all weight.
 * @param {Vector} weights
 */
export function gradientLeft(weights) {
  let total = 0;
  for (const p of weights) total += p * (1 - p);
  return total;
}

/**
 * Softmax over the visible positions; hidden ones get weight 0.
 * @param {Vector} scores
 * @param {Vector | null} [visible]
 */
export function softmax(scores, visible = null) {
  const isVisible = (/** @type {number} */ i) => visible === null || visible[i] > 0;
  let largest = -Infinity;
  for (let i = 0; i < scores.length; i += 1) if (isVisible(i)) largest = Math.max(largest, scores[i]);
  const weights = new Float32Array(scores.length);
  let total = 0;
  for (let i = 0; i < scores.length; i += 1) if (isVisible(i)) total += Math.exp(scores[i] - largest);
  for (let i = 0; i < scores.length; i += 1) weights[i] = isVisible(i) ? Math.exp(scores[i] - largest) / total : 0;
  return weights;
}

/**
 * PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same (section 3.5).
 * @param {number} position
 * @param {number} d_model
 */
export function sinusoid(position, d_model) {
  const wave = new Float32Array(d_model);
  for (let i = 0; i < d_model; i += 1) {
    const angle = position / 10000 ** ((i - (i % 2)) / d_model);
    wave[i] = i % 2 ? Math.cos(angle) : Math.sin(angle);
  }
  return wave;
}
