// Before and after: two translations, what differs, and what the change does to the old one's probability.

import { make, quoted } from "./dom.js";
import { touched } from "./looking.js";
import { state } from "./state.js";
import { number, percent, t } from "./texts.js";
import { shade } from "./translation.js";
import { changedWords } from "./word_diff.js";

export class BeforeAfter {
  element = make("div", { class: "before-after" });
  words = make("div"); // the old translation, word by word

  /** Show a look: with its change, or, where nothing was changed, the translation alone. */
  show(look) {
    const { change } = look;
    const changed = change && touched(state.changes);
    this.element.replaceChildren(...(changed ? both(change) : alone(look)));
    this.words.replaceChildren(...(changed ? [wordByWord(change.before.words, change.of_before.words)] : []));
  }
}

function alone(look) {
  const words = look.target.text.split(/\s+/).filter(Boolean).map((text) => ({ text }));
  const before = side(t("try.before"), words, [], look.log_probability);
  const after = make(
    "div",
    { class: "half" },
    make("h2", {}, t("try.after")),
    make("p", { class: "note" }, t("try.nothing")),
  );
  return [make("div", { class: "halves" }, before, after)];
}

function both({ before, after, of_before: now }) {
  const texts = [before, after].map(({ words }) => words.map(({ text }) => text));
  const [lost, gained] = changedWords(...texts);
  const same = before.text === after.text;
  const verdict = make(
    "p",
    { class: "verdict", role: "status" },
    ...verdictOf(before, now, same, Math.max(...[lost, gained].map((one) => one.filter(Boolean).length))),
  );
  return [
    make(
      "div",
      { class: "halves" },
      side(t("try.before"), before.words, lost, before.log_probability),
      side(t("try.after"), after.words, gained, after.log_probability),
    ),
    verdict,
  ];
}

/** One translation, its changed words marked, its log-probability below. */
function side(title, words, changed, logProbability) {
  const text = make("p", { class: "shaded", dir: "auto" });
  words.forEach(({ text: word, probability }, place) => {
    const one = make(changed[place] ? "mark" : "span", { class: "word" }, word);
    shade(one, probability);
    text.append(one, " ");
  });
  return make(
    "div",
    { class: "half" },
    make("h2", {}, title),
    text,
    make("p", { class: "logp" }, `${t("try.logp")} `, make("b", {}, number(logProbability, 2))),
  );
}

function verdictOf(before, now, same, nChanged) {
  const delta = now.log_probability - before.log_probability;
  const signed = (delta > 0 ? "+" : "") + number(delta, 2);
  const said = same ? t("try.same") : t("try.changed", nChanged) + ".";
  return [`${said} `, t("try.verdict", signed, factorOf(delta))];
}

/** e^Δ as people say it: "12 times less likely". */
function factorOf(delta) {
  const times = Math.exp(Math.abs(delta));
  if (times < 1.05) return null;
  const told = times > 1e6 ? `10^${Math.floor(Math.abs(delta) / Math.LN10)}` : number(times, times < 10 ? 1 : 0);
  return t(delta < 0 ? "try.less" : "try.more", told);
}

/** Two bars a word: how likely it was, how likely it is now. */
function wordByWord(before, now) {
  const items = before.map(({ text, probability }, place) => {
    const after = now[place]?.probability ?? 0;
    const said = t("try.word", quoted(text), percent(probability), percent(after));
    return make(
      "li",
      { title: said },
      make("span", { class: "unseen" }, said),
      make("span", { "aria-hidden": "true", dir: "auto", class: "name" }, text),
      shareBar("was", probability),
      shareBar("is", after),
    );
  });
  const label = t("try.words");
  return make(
    "figure",
    { class: "likely" },
    make(
      "figcaption",
      {},
      label,
      make("span", { class: "was" }, t("try.was")),
      make("span", { class: "is" }, t("try.is")),
    ),
    make("ul", { "aria-label": label }, ...items),
  );
}

function shareBar(kind, share) {
  const one = make("span", { class: `share ${kind}`, "aria-hidden": "true" });
  one.style.setProperty("--share", share.toFixed(4));
  return one;
}
