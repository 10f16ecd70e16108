// Numbers as they are written on the stage, and the little arithmetic that the stage does itself.

/** 0.00002 → "2·10⁻⁵" */
function tiny(size) {
  const [digit, power] = size.toExponential(0).split("e-");
  return `${digit}·10⁻${[...power].map((one) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[one]).join("")}`;
}

/** 1234.5 → "1,235", 3.14159 → "3.14", 0.0042 → "0.0042"; a true minus sign. */
export function shown(x, digits = 2) {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "–";
  const size = Math.abs(x);
  let text;
  if (size >= 1000) text = Math.round(size).toLocaleString("en");
  else if (size !== 0 && size < 0.5 * 10 ** -digits) text = size < 1e-4 ? tiny(size) : size.toPrecision(1);
  else text = size.toFixed(size >= 100 ? 1 : digits);
  return (x < 0 && Number(size) !== 0 ? "−" : "") + text;
}

/** A weight or a probability: two places, three where it is small. */
export function share(x) {
  if (x > 0 && x < 0.0005) return "<0.001";
  return x < 0.0995 && x > 0 ? x.toFixed(3) : x.toFixed(2);
}

export function count(n) {
  return Math.round(n).toLocaleString("en");
}

export function dot(a, b) {
  let total = 0;
  for (let i = 0; i < a.length; i += 1) total += a[i] * b[i];
  return total;
}

export function norm(a) {
  return Math.sqrt(dot(a, a));
}

/** 1 for the same direction, 0 for none in common. */
export function cosine(a, b) {
  return dot(a, b) / (norm(a) * norm(b) || 1);
}

export function mean(a) {
  let total = 0;
  for (const x of a) total += x;
  return total / (a.length || 1);
}

/** Standard deviation, as layer normalisation takes it. */
export function spread(a) {
  const middle = mean(a);
  let total = 0;
  for (const x of a) total += (x - middle) ** 2;
  return Math.sqrt(total / (a.length || 1));
}

export function largest(a) {
  let best = 0;
  for (const x of a) best = Math.max(best, Math.abs(x));
  return best;
}

export function argmax(a) {
  let best = 0;
  for (let i = 1; i < a.length; i += 1) if (a[i] > a[best]) best = i;
  return best;
}

/** In nats: 0 when all weight is on one, ln n when it is spread over n. */
export function entropy(weights) {
  let total = 0;
  for (const p of weights) if (p > 0) total -= p * Math.log(p);
  return total;
}

/** e^x of each, divided by their sum; what is not visible gets −∞ before and so 0 after. */
export function softmax(scores, visible = null) {
  const seen = (i) => visible === null || visible[i] > 0;
  let top = -Infinity;
  for (let i = 0; i < scores.length; i += 1) if (seen(i)) top = Math.max(top, scores[i]);
  const weights = new Float32Array(scores.length);
  let total = 0;
  for (let i = 0; i < scores.length; i += 1) if (seen(i)) total += Math.exp(scores[i] - top);
  for (let i = 0; i < scores.length; i += 1) weights[i] = seen(i) ? Math.exp(scores[i] - top) / total : 0;
  return weights;
}

/** PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same (section 3.5). */
export function sinusoid(position, d_model) {
  const wave = new Float32Array(d_model);
  for (let i = 0; i < d_model; i += 1) {
    const angle = position / 10000 ** ((i - (i % 2)) / d_model);
    wave[i] = i % 2 ? Math.cos(angle) : Math.sin(angle);
  }
  return wave;
}
