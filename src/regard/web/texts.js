// What the page says, in the reader's language. Each language is written by hand in a file of its own.

import { keep, kept } from "./dom.js";
import { change, onChange, state } from "./state.js";
import { EN } from "./texts.en.js";
import { KO } from "./texts.ko.js";

const TEXTS = { en: EN, ko: KO };

/** The text under a key; texts that hold values are functions of them. */
export function t(key, ...values) {
  const found = TEXTS[state.language][key] ?? EN[key] ?? key;
  return typeof found === "function" ? found(...values) : found;
}

/** Speak this language from now on, and remember it. */
export function speak(language) {
  keep("language", language);
  change({ language });
}

/** Call `then` when the language has changed and the fixed texts of the page are already rewritten. */
export const onLanguage = (then) => onChange(["language"], then);

/** The language that was chosen before, or the first of the browser's that we know. */
export function startLanguage() {
  onChange(["language"], rewrite);
  const wanted = [kept("language"), ...navigator.languages.map((one) => one.slice(0, 2))];
  change({ language: wanted.find((one) => one in TEXTS) ?? "en" });
  rewrite();
}

/** Put the texts into what stands in the page: data-text, and attributes by data-label, data-placeholder. */
export function rewrite(_event, root = document) {
  if (root === document) document.documentElement.lang = state.language;
  for (const one of root.querySelectorAll("[data-text]")) one.textContent = t(one.dataset.text);
  for (const one of root.querySelectorAll("[data-label]")) one.setAttribute("aria-label", t(one.dataset.label));
  for (const one of root.querySelectorAll("[data-placeholder]")) one.placeholder = t(one.dataset.placeholder);
}

/** A number as people write it, with a real minus sign. */
export function number(value, digits = 2) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toLocaleString(state.language, { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace(
    "-",
    "−",
  );
}

/** A share as a percentage; what is not quite certain is not called certain. */
export function percent(share) {
  if (share > 0.995 && share < 1) return ">99%";
  if (share < 0.01 && share > 0) return "<1%";
  return `${Math.round(share * 100)}%`;
}

/** The name of a language from its code, in the page's own language. */
export function languageName(code) {
  try {
    return new Intl.DisplayNames([state.language], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}

/** 95 seconds → "1 min 35 s". */
export function duration(seconds) {
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  if (hours) return `${t("hours", hours)} ${t("minutes", minutes)}`;
  return minutes ? `${t("minutes", minutes)} ${t("seconds", rest)}` : t("seconds", rest);
}
