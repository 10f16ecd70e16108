// The same sentences at every validation: what the model made of them while it learned. And what the doctor said of the data.

import { make } from "./dom.js";
import { number, t } from "./texts.js";
import { changedWords } from "./word_diff.js";
import { wordsOf } from "./words.js";

const MOST = 6; // translations of a sentence that stand there at once; the others unfold

/** The section of the samples, or nothing when there are none. */
export function samplesOf(samples) {
  if (!samples.length) return [];
  const list = samples.map(({ source, reference, translations }) =>
    make("div", { class: "sample" }, ...rowsOf(source, reference, translations))
  );
  return [
    make(
      "section",
      {},
      make("h2", {}, t("training.samples")),
      make("p", { class: "note" }, t("training.samples.how")),
      ...list,
    ),
  ];
}

function rowsOf(source, reference, translations) {
  const tried = translations.map(({ step, text }) => row(number(step, 0), ...marked(text, reference)));
  const early = tried.slice(0, Math.max(0, tried.length - MOST));
  const folded = early.length
    ? [make("details", {}, make("summary", {}, t("training.more", early.length)), ...early)]
    : [];
  return [row(t("training.source"), source), ...folded, ...tried.slice(-MOST), row(t("training.reference"), reference)];
}

function row(label, ...text) {
  return make(
    "p",
    { class: "row" },
    make("span", { class: "label" }, label),
    make("span", { dir: "auto", class: "text" }, ...text),
  );
}

/** A translation with the words marked that the reference does not have there. */
function marked(text, reference) {
  const words = wordsOf(text).map((word) => word.text);
  const [changed] = changedWords(words, wordsOf(reference).map((word) => word.text));
  return words.flatMap((word, place) => [make(changed[place] ? "mark" : "span", {}, word), " "]);
}

/** The section of the data doctor's findings; nothing when the doctor did not examine any corpus. */
export function findingsOf({ findings = [], corpora = [] }) {
  if (!findings.length && !corpora.length) return [];
  const title = make("h2", {}, t("training.findings"));
  if (!findings.length) return [make("section", {}, title, make("p", { class: "note" }, t("training.healthy")))];
  return [make("section", {}, title, make("ul", { class: "findings" }, ...findings.map(finding)))];
}

function finding({ severity, message, advice, lines }) {
  const kind = ["spoils", "warning"].includes(severity) ? severity : "note";
  const where = lines?.length ? make("p", { class: "note" }, t("finding.lines", lines.join(", "))) : null;
  return make(
    "li",
    { class: kind },
    make("span", { class: "label" }, t(`severity.${kind}`)),
    make("div", {}, make("p", {}, message), advice ? make("p", { class: "note" }, advice) : null, where),
  );
}
