// From values to places on a chart, and which values to write at its edge.

/** Round values within a range, about `n` of them: 1, 2, 2.5 or 5 times a power of ten apart. */
export function ticksOf(low, high, n) {
  const rough = (high - low) / Math.max(1, n) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power *
    ((power < 10 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).find((one) => one * power >= rough * 0.999) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, place) => (first + place) * step);
}

/** The same where equal factors, not equal differences, are equally far apart. */
export function logTicks(low, high) {
  const ticks = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const one of high / low > 200 ? [1] : [1, 2, 5]) {
      if (one * power >= low * 0.999 && one * power <= high * 1.001) ticks.push(one * power);
    }
  }
  return ticks;
}

/** A function from [low, high] to [from, to]; `log` for equal factors. */
export function scale(low, high, from, to, log = false) {
  const place = log ? Math.log : (value) => value;
  const span = place(high) - place(low) || 1;
  return (value) => from + ((place(value) - place(low)) / span) * (to - from);
}

/** The range of all values, with a little air; from zero where `zero` says so. */
export function rangeOf(values, { zero = false, log = false } = {}) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  if (log) return [low, Math.max(high, low * 1.1)];
  return [zero ? Math.min(0, low) : low, high === low ? low + 1 : high];
}
