// Numbers, durations and language names as text.

import { language, t } from "./texts/texts.js";

/**
 * A number with a fixed number of digits, as the page's language writes it, with a real minus sign.
 * @param {number | null | undefined} value
 * @param {number} [digits]
 */
export function decimal(value, digits = 2) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toLocaleString(language(), { minimumFractionDigits: digits, maximumFractionDigits: digits })
    .replace("-", "−");
}

/**
 * A probability as a percentage that is never rounded to 0% or 100%.
 * @param {number} probability
 */
export function percent(probability) {
  if (probability > 0.995 && probability < 1) return ">99%";
  if (probability < 0.01 && probability > 0) return "<1%";
  return `${Math.round(probability * 100)}%`;
}

/**
 * 95 seconds → "1 min 35 s".
 * @param {number} seconds
 */
export function duration(seconds) {
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  if (hours) return `${t("hours", hours)} ${t("minutes", minutes)}`;
  return minutes ? `${t("minutes", minutes)} ${t("seconds", rest)}` : t("seconds", rest);
}

/**
 * The name of a language in the page's own language.
 * @param {string} code
 */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([language()], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}

/**
 * A number inside a figure: 1234.5 → "1,235", 3.14159 → "3.14", 0.0042 → "0.0042", with a real minus sign.
 * @param {number} x
 * @param {number} [digits]
 */
export function formatNumber(x, digits = 2) {
  if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "–";
  const size = Math.abs(x);
  let text = "";
  if (size >= 1e7) text = powerOfTen(Math.log10(size));
  else if (size >= 1000) text = Math.round(size).toLocaleString("en");
  else if (size !== 0 && size < 0.5 * 10 ** -digits) {
    text = size < 1e-4 ? powerOfTen(Math.log10(size)) : size.toPrecision(1);
  } else text = size.toFixed(size >= 100 ? 1 : digits);
  return (x < 0 && size !== 0 ? "−" : "") + text;
}

/**
 * A power of ten with one digit before it: the logarithm of 0.00002 → "2·10⁻⁵", 21 → "10²¹".
 * @param {number} log10 as a logarithm, since the number itself may be too large
 */
export function powerOfTen(log10) {
  const digit = Math.round(10 ** (log10 - Math.floor(log10)));
  const exponent = Math.floor(log10) + (digit === 10 ? 1 : 0);
  const sign = exponent < 0 ? "⁻" : "";
  const power = `10${sign}${[...String(Math.abs(exponent))].map((n) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(n)]).join("")}`;
  return digit % 10 === 0 || digit === 1 ? power : `${digit}·${power}`;
}

/**
 * A weight or a probability: two decimals, three if it is small.
 * @param {number} x
 */
export const formatWeight = (x) => (x > 0 && x < 0.0995 ? formatNumber(x, 3) : x.toFixed(2));

/**
 * A whole number with thousands separators.
 * @param {number} n
 */
export function formatCount(n) {
  return Math.round(n).toLocaleString("en");
}

/**
 * A prediction of any task on one line: { label: "dog", probability: 0.91 } → "label: dog · probability: 0.9100"
 * A text comes first and without its name, and what is a part of it is left out; so are lists of texts and of lists.
 * @param {Record<string, any>} prediction
 */
export function formatPrediction({ text, probabilities, ...values }) {
  const isPart = (/** @type {any} */ value) => typeof value === "string" && (text?.includes(value) || isRanked(value));
  const isRanked = (/** @type {string} */ value) => Object.hasOwn(probabilities ?? {}, value);
  const hidden = probabilities ? ["probability", ...REPEATED] : REPEATED;
  const { unknown = [], ...rest } = values;
  const others = Object.entries(rest).filter(([name, value]) =>
    !isPart(value) && !hidden.includes(name) && !isTable(value)
  );
  const shown = others.map(([name, value]) => `${name}: ${formatValue(largest(value))}`);
  if (unknown.length) shown.push(`unknown: ${unknown.join(", ")}`);
  return [...(text === undefined ? [] : [text]), ...ranking(probabilities), ...shown].join(" · ");
}

/** Repeats the input. */
const REPEATED = ["question", "sentences", "first_sentence"];

/** The most probable labels or answers. */
function ranking(/** @type {Record<string, number>} */ probabilities = {}) {
  const ranked = Object.entries(probabilities).sort(([, a], [, b]) => b - a);
  const shown = ranked.slice(0, MAX_NUMBERS).map(([name, number]) => `${name}: ${percent(number)}`);
  return ranked.length > MAX_NUMBERS ? [...shown, "…"] : shown;
}

const MAX_NUMBERS = 4;

/** Of a table of many numbers, such as the probabilities of all labels, the largest. */
function largest(/** @type {any} */ value) {
  const entries = Object.entries(typeof value === "object" && value && !Array.isArray(value) ? value : {});
  if (entries.length <= MAX_NUMBERS || !entries.every(([, number]) => typeof number === "number")) return value;
  // no object: names that are numbers would be put in their own order
  return entries.sort(([, a], [, b]) => b - a).slice(0, MAX_NUMBERS).map(([name, number]) =>
    `${name}: ${formatValue(number)}`
  ).join(", ") + " …";
}

/** Words with probabilities, such as what a model expects in the place of a missing one. */
const isListOfWords = (/** @type {any} */ value) =>
  Array.isArray(value) && value.length > 0 && value.every((each) => each?.text !== undefined && "probability" in each);

const isTable = (/** @type {any} */ value) =>
  Array.isArray(value) && value.length > 0 &&
  value.every((each) => typeof each === "string" || (Array.isArray(each) && !isListOfWords(each)));

const rounded = (/** @type {any} */ value) => (typeof value === "number" ? Number(value.toPrecision(4)) : value);

/** @param {any} value of JSON */
export function formatValue(value) {
  if (isListOfWords(value)) return value.map(({ text, probability }) => `${text} ${percent(probability)}`).join(", ");
  if (Array.isArray(value) && value.length && value.every(isListOfWords)) return value.map(formatValue).join(" · ");
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : formatNumber(value, 4);
  if (typeof value === "string" || Array.isArray(value) || value === null || typeof value !== "object") {
    return typeof value === "string" ? value : JSON.stringify(value, (_, inner) => rounded(inner));
  }
  return Object.entries(value).map(([name, inner]) => `${name}: ${formatValue(inner)}`).join(", ");
}
