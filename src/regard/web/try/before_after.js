// Two translations side by side, what differs, and how the change affects the probability of the first.

import { isolated, make, numberElement } from "../dom.js";
import { decimal, percent, powerOfTen } from "../format.js";
import { isChanged } from "../look/look_request.js";
import { state } from "../state.js";
import { t } from "../texts/texts.js";
import { shade } from "../translate/translation_text.js";
import { trainedWithout } from "./trained_without.js";
import { changedWords } from "../words.js";

/** @typedef {{ text: string, probability?: number }} Word */

export class BeforeAfter {
  element = make("div", { class: "before-after" });
  effect = make("div", { class: "effect", role: "status" });
  words = make("div"); // the first translation, word by word

  /**
   * Shows both translations of a look, or only the first if nothing was changed.
   * @param {any} look
   */
  show(look) {
    const { change } = look;
    const changed = change && isChanged(state.changes);
    this.element.replaceChildren(changed ? bothSides(change) : firstSide(look));
    this.effect.replaceChildren(...(changed ? effects(change) : []));
    this.words.replaceChildren(...(changed ? [wordProbabilities(change), ...trainedWithout(look)] : []));
  }
}

function firstSide(look) {
  const words = look.target.text.split(/\s+/).filter(Boolean).map((text) => ({ text }));
  const after = make(
    "div",
    { class: "comparison-side" },
    make("h2", {}, t("try.after")),
    make("p", { class: "note" }, t("try.nothing")),
  );
  return make("div", { class: "comparison" }, side(t("try.before"), words, [], look.log_probability), after);
}

function bothSides(change) {
  const [removed, added] = changedIn(change);
  return make(
    "div",
    { class: "comparison" },
    side(t("try.before"), change.before.words, removed, change.before.log_probability),
    side(t("try.after"), change.after.words, added, change.after.log_probability),
  );
}

/** What the change does to the first translation: a sentence, two without the mask. */
function effects(change) {
  const { before, after, of_before: atOnce, of_before_in_use: inUse } = change;
  const nChanged = Math.max(...changedIn(change).map((flags) => flags.filter(Boolean).length));
  const result = before.text === after.text ? t("try.same") : `${t("try.changed", nChanged)}.`;
  if (state.changes.mask) return [make("p", {}, make("b", {}, result), " ", ...effect(before, inUse))];
  return [
    make("p", {}, t("try.in.use"), make("b", {}, result), " ", ...effect(before, inUse)),
    make("p", {}, t("try.in.training"), ...effect(before, atOnce)),
  ];
}

/** Which words of each translation the other one does not have. */
function changedIn({ before, after }) {
  const texts = (words) => words.map(({ text }) => text);
  return changedWords(texts(before.words), texts(after.words));
}

/**
 * One translation with its changed words marked and its log-probability below.
 * @param {string} title
 * @param {Word[]} words
 * @param {boolean[]} changed
 * @param {number} logProbability
 */
function side(title, words, changed, logProbability) {
  const text = make("p", { class: "shaded", dir: "auto" });
  words.forEach(({ text: word, probability }, i) => {
    const element = make(changed[i] ? "mark" : "span", { class: "word" }, word);
    shade(element, probability);
    text.append(element, " ");
  });
  const value = make("b", {}, numberElement(logProbability, decimal(logProbability, 2)));
  return make(
    "div",
    { class: "comparison-side" },
    make("h2", {}, title),
    text,
    make("p", { class: "log-probability" }, `${t("try.logp")} `, value),
  );
}

/** How the probability of the first translation changes, as a sentence with a number. */
function effect(before, after) {
  const delta = after.log_probability - before.log_probability;
  const signed = make("b", {}, numberElement(delta, (delta > 0 ? "+" : "") + decimal(delta, 2)));
  return t("try.effect", signed, factorText(delta));
}

/** e^|delta| in words: "12 times less likely"; null if it is close to 1. */
function factorText(/** @type {number} */ delta) {
  const factor = Math.exp(Math.abs(delta));
  if (factor < 1.05) return null;
  const times = factor > 1e6 ? powerOfTen(Math.abs(delta) / Math.LN10) : decimal(factor, factor < 10 ? 1 : 0);
  return t(delta < 0 ? "try.less" : "try.more", times);
}

/** A bar per way of scoring for each word of the first translation. */
function wordProbabilities({ before, of_before: atOnce, of_before_in_use: inUse }) {
  /** @type {[string, Word[]][]} */
  const kinds = state.changes.mask
    ? [["before", before.words], ["after", inUse.words]]
    : [["before", before.words], ["use", inUse.words], ["training", atOnce.words]];
  const items = before.words.map(({ text }, i) => {
    const probabilities = kinds.map(([kind, words]) =>
      `${t(`try.words.${kind}`)} ${percent(words[i]?.probability ?? 0)}`
    );
    const description = `${isolated(text)}: ${probabilities.join(", ")}`;
    return make(
      "li",
      { title: description },
      make("span", { class: "visually-hidden" }, description),
      make("span", { "aria-hidden": "true", dir: "auto", class: "name" }, text),
      kinds.map(([kind, words]) => probabilityBar(kind, words[i]?.probability ?? 0)),
    );
  });
  const label = t("try.words");
  const caption = make(
    "figcaption",
    {},
    label,
    kinds.map(([kind]) => make("span", { class: kind }, t(`try.words.${kind}`))),
  );
  return make("figure", { class: "word-probabilities" }, caption, make("ul", { "aria-label": label }, ...items));
}

function probabilityBar(/** @type {string} */ name, /** @type {number} */ probability) {
  const bar = make("span", { class: `probability-bar ${name}`, "aria-hidden": "true" });
  bar.style.setProperty("--share", probability.toFixed(4));
  return bar;
}
