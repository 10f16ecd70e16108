// Chart scales: from values to pixels, and which values to label.

/**
 * About `n` round values in a range, 1, 2, 2.5 or 5 times a power of ten apart.
 * @param {number} low
 * @param {number} high
 * @param {number} n
 */
export function linearTicks(low, high, n) {
  const rough = (high - low) / Math.max(1, n) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factors = power < 10 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
  const step = power * (factors.find((factor) => factor * power >= rough * 0.999) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => (first + i) * step);
}

/**
 * Round values in a range on a logarithmic scale.
 * @param {number} low
 * @param {number} high
 */
export function logTicks(low, high) {
  const factors = high / low > 200 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const factor of factors) {
      if (factor * power >= low * 0.999 && factor * power <= high * 1.001) ticks.push(factor * power);
    }
  }
  return ticks;
}

/**
 * A function from [low, high] to [from, to].
 * @param {number} low
 * @param {number} high
 * @param {number} from
 * @param {number} to
 * @param {boolean} [log] logarithmic
 * @returns {(value: number) => number}
 */
export function scale(low, high, from, to, log = false) {
  const transform = log ? Math.log : (value) => value;
  const span = transform(high) - transform(low) || 1;
  return (value) => from + ((transform(value) - transform(low)) / span) * (to - from);
}

/**
 * The range of an axis for these values.
 * @param {number[]} values
 * @param {{ zero?: boolean, log?: boolean }} [options] zero: the range includes 0
 */
export function rangeOf(values, { zero = false, log = false } = {}) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  if (log) return [low, Math.max(high, low * 1.1)];
  const bottom = zero ? Math.min(0, low) : low;
  return [bottom, high > bottom ? high : bottom + (Math.abs(bottom) || 1)];
}
