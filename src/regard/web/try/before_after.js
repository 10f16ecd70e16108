// Two translations side by side, what differs, and how the change affects the probability of the first.

import { isolated, make } from "../dom.js";
import { decimal, percent } from "../format.js";
import { isChanged } from "../look/look_request.js";
import { state } from "../state.js";
import { t } from "../texts/texts.js";
import { shade } from "../translate/translation_text.js";
import { changedWords } from "../words.js";

/** @typedef {{ text: string, probability?: number }} Word */

export class BeforeAfter {
  element = make("div", { class: "before-after" });
  words = make("div"); // the first translation, word by word

  /**
   * Shows both translations of a look, or only the first if nothing was changed.
   * @param {any} look
   */
  show(look) {
    const { change } = look;
    const changed = change && isChanged(state.changes);
    this.element.replaceChildren(...(changed ? bothSides(change) : firstSide(look)));
    this.words.replaceChildren(...(changed ? [wordProbabilities(change.before.words, change.of_before.words)] : []));
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
  return [make("div", { class: "comparison" }, side(t("try.before"), words, [], look.log_probability), after)];
}

function bothSides({ before, after, of_before: rescored }) {
  const texts = (words) => words.map(({ text }) => text);
  const [removed, added] = changedWords(texts(before.words), texts(after.words));
  const nChanged = Math.max(...[removed, added].map((flags) => flags.filter(Boolean).length));
  const comparison = make(
    "div",
    { class: "comparison" },
    side(t("try.before"), before.words, removed, before.log_probability),
    side(t("try.after"), after.words, added, after.log_probability),
  );
  const delta = rescored.log_probability - before.log_probability;
  const effect = effectText(delta, before.text === after.text, nChanged);
  return [comparison, make("p", { class: "effect", role: "status" }, effect)];
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
  const value = make("b", {}, decimal(logProbability, 2));
  return make(
    "div",
    { class: "comparison-side" },
    make("h2", {}, title),
    text,
    make("p", { class: "log-probability" }, `${t("try.logp")} `, value),
  );
}

/**
 * @param {number} delta change of the first translation's log-probability
 * @param {boolean} same whether both translations are the same
 * @param {number} nChanged words
 */
function effectText(delta, same, nChanged) {
  const signed = (delta > 0 ? "+" : "") + decimal(delta, 2);
  return `${same ? t("try.same") : t("try.changed", nChanged) + "."} ${t("try.effect", signed, factorText(delta))}`;
}

/** e^|delta| in words: "12 times less likely"; null if it is close to 1. */
function factorText(/** @type {number} */ delta) {
  const factor = Math.exp(Math.abs(delta));
  if (factor < 1.05) return null;
  const times = factor > 1e6 ? `10^${Math.floor(Math.abs(delta) / Math.LN10)}` : decimal(factor, factor < 10 ? 1 : 0);
  return t(delta < 0 ? "try.less" : "try.more", times);
}

/**
 * Two bars per word: its probability before and after the change.
 * @param {Word[]} before
 * @param {Word[]} after
 */
function wordProbabilities(before, after) {
  const items = before.map(({ text, probability }, i) => {
    const now = after[i]?.probability ?? 0;
    const description = t("try.word", isolated(text), percent(probability), percent(now));
    return make(
      "li",
      { title: description },
      make("span", { class: "visually-hidden" }, description),
      make("span", { "aria-hidden": "true", dir: "auto", class: "name" }, text),
      probabilityBar("before", probability),
      probabilityBar("after", now),
    );
  });
  const label = t("try.words");
  const caption = make(
    "figcaption",
    {},
    label,
    make("span", { class: "before" }, t("try.words.before")),
    make("span", { class: "after" }, t("try.words.after")),
  );
  return make("figure", { class: "word-probabilities" }, caption, make("ul", { "aria-label": label }, ...items));
}

function probabilityBar(/** @type {string} */ name, /** @type {number} */ probability) {
  const bar = make("span", { class: `probability-bar ${name}`, "aria-hidden": "true" });
  bar.style.setProperty("--share", probability.toFixed(4));
  return bar;
}
