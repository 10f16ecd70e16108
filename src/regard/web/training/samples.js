// The samples of every validation, and the findings about the training data.

import { make } from "../dom.js";
import { decimal } from "../format.js";
import { t } from "../texts/texts.js";
import { changedWords, splitWords } from "../words.js";

const MAX_SHOWN = 8; // translations per sentence; earlier ones are folded

/**
 * The section with the samples; empty if there are none.
 * @param {{ given: Record<string, string>, expected: string | null, outputs: { step: number, text: string }[] }[]} samples
 */
export function sampleSection(samples) {
  if (!samples.length) return [];
  const list = samples.map((sample) => make("div", { class: "sample" }, ...sampleRows(sample)));
  const compared = samples.some(({ expected }) => expected !== null);
  const note = compared ? make("p", { class: "note" }, t("training.samples.how")) : null;
  return [make("section", {}, make("h2", {}, t("training.samples")), note, list)];
}

function sampleRows({ given, expected, outputs }) {
  const names = Object.keys(given); // of the input and, if it is known, of what the output should be
  const rows = outputs.map(({ step, text }) =>
    row(t("training.step", decimal(step, 0)), ...withChanges(text, expected ?? text))
  );
  const early = rows.slice(0, Math.max(0, rows.length - MAX_SHOWN));
  const folded = early.length
    ? [make("details", {}, make("summary", {}, t("training.more", early.length)), ...early)]
    : [];
  return [
    row(labelOf(names[0]), given[names[0]]),
    ...folded,
    ...rows.slice(-MAX_SHOWN),
    ...(expected === null ? [] : [row(labelOf(names.at(-1)), expected)]),
  ];
}

/** Of the texts of a translator in the page's language, of others as the run calls them. */
const labelOf = (/** @type {string} */ name) => ["source", "reference"].includes(name) ? t(`training.${name}`) : name;

function row(label, ...text) {
  return make(
    "p",
    { class: "row" },
    make("span", { class: "label" }, label),
    make("span", { dir: "auto", class: "text" }, ...text),
  );
}

/** The translation with the words marked that differ from the reference. */
function withChanges(/** @type {string} */ text, /** @type {string} */ reference) {
  const words = splitWords(text).map((word) => word.text);
  const [changed] = changedWords(words, splitWords(reference).map((word) => word.text));
  if (!words.length) return [make("span", { class: "note" }, t("training.samples.empty"))];
  return words.flatMap((word, i) => [make(changed[i] ? "mark" : "span", {}, word), " "]);
}

/**
 * The section with the data doctor's findings; empty if no corpus was examined.
 * @param {{ findings?: any[], corpora?: any[] }} run
 */
export function findingsSection({ findings = [], corpora = [] }) {
  if (!findings.length && !corpora.length) return [];
  const title = make("h2", {}, t("training.findings"));
  if (!findings.length) return [make("section", {}, title, make("p", { class: "note" }, t("training.healthy")))];
  return [make("section", {}, title, make("ul", { class: "findings" }, ...findings.map(findingItem)))];
}

function findingItem({ severity, message, advice, lines }) {
  const kind = ["spoils", "warning"].includes(severity) ? severity : "note";
  const text = make(
    "div",
    {},
    make("p", {}, message),
    advice ? make("p", { class: "note" }, advice) : null,
    lines?.length ? make("p", { class: "note" }, t("finding.lines", lines.join(", "))) : null,
  );
  return make("li", { class: kind }, make("span", { class: "label" }, t(`severity.${kind}`)), text);
}
