// The last step: two questions for each group of questions that students of the paper ask, one to recall and one to
// transfer. The answers are computed from the numbers of this model and sentence.

import { isolated, make, setAttribute } from "../../dom.js";
import { formatCount, formatNumber } from "../../format.js";
import { t } from "../../texts/texts.js";
import { TRAINED } from "../../try/trained_models.js";
import { argmax, cosine, softmax } from "../math.js";

/** @import { LookData } from "../look_data.js" */
/** @import { StepContext } from "../look_panel.js" */
/**
 * @typedef {object} Item
 * @property {string} key of the texts
 * @property {Record<string, any>} at where the page answers it
 * @property {string} answer
 * @property {string[]} others wrong answers; those that equal the answer are left out
 * @property {any[]} [values] in the question
 */

const N_OPTIONS = 3;

/** @returns {Item[]} */
export function quizItems(/** @type {LookData} */ data) {
  return [
    ...attentionItems(data),
    ...orderItems(data),
    ...layerItems(data),
    ...outputItems(data),
    ...pictureItems(data),
  ];
}

/** Where keys come from, what passes, the mask, √d_k. */
function attentionItems(/** @type {LookData} */ data) {
  const { d_model, d_k } = data.model;
  const [n, m] = [data.keySide("cross").pieces.length, data.keySide("decoder").pieces.length];
  const query = Math.min(2, m - 1);
  const seen =
    data.row({ attention: "decoder", layer: 0, head: 0 }, query).weights.filter((weight) => weight > 0).length;
  const { scores } = data.row({ attention: "encoder", layer: 0, head: 0 }, 0);
  const [divided, plain] = [scores.map((x) => x / Math.sqrt(d_k)), scores].map((row) => Math.max(...softmax(row)));
  const changes = ["larger", "same", "smaller"].map((name) => t(`look.quiz.options.${name}`));
  const copies = TRAINED.mask.rows.at(-1).loss < TRAINED.paper.rows.at(-1).loss &&
    TRAINED.mask.exact < TRAINED.paper.exact;
  const firstRow = { attention: "encoder", layer: 0, head: 0, level: "pieces", row: 0 };
  const outcomes = ["copies", "better", "worse"].map((name) => t(`look.quiz.options.${name}`));
  return [
    { key: "keys", at: { step: "cross" }, answer: String(n), others: [String(m), String(n + m), "1"] },
    {
      key: "passes",
      at: { step: "cross" },
      answer: formatCount(n * d_model),
      others: [2 * n * d_model, n, d_model].map(formatCount),
      values: [data.model.n_encoder_layers],
    },
    {
      key: "visible",
      at: { step: "masked", layer: 0, head: 0, level: "pieces", row: query },
      answer: String(seen),
      others: ["1", String(m), String(m + 1)],
      values: [query + 1],
    },
    { key: "unmasked", at: { step: "masked" }, answer: outcomes[copies ? 0 : 1], others: outcomes },
    {
      key: "root",
      at: { ...firstRow, step: "scores" },
      answer: data.divides ? `√${d_k} = ${formatNumber(Math.sqrt(d_k))}` : t("look.quiz.options.nothing"),
      others: [
        String(d_k),
        `√${d_model} = ${formatNumber(Math.sqrt(d_model))}`,
        `√${d_k} = ${formatNumber(Math.sqrt(d_k))}`,
      ],
    },
    {
      key: "largest",
      at: { ...firstRow, step: "scores", switched: "scale" },
      answer: changes[plain > divided ? 0 : plain < divided ? 2 : 1],
      others: changes,
    },
  ];
}

/** What is the same at every position, and what tells positions apart. */
function orderItems(/** @type {LookData} */ data) {
  const embedded = data.embedding("source", "embedded").at(0);
  const positions = data.embedding("source", "position");
  const n = positions.shape[0];
  const at = Math.floor(n / 2);
  const likeness = Array.from({ length: n }, (_, i) => (i === at ? -2 : cosine(positions.at(i), positions.at(at))));
  return [
    {
      key: "twice",
      at: { step: "embedding", attention: "encoder", level: "pieces", row: 0 },
      answer: cosine(embedded, embedded).toFixed(2),
      others: ["0.00", "0.50"],
      values: [isolated(data.look.source.pieces[0].text)],
    },
    {
      key: "near",
      at: { step: "position", attention: "encoder", level: "pieces", row: at },
      answer: String(argmax(likeness)),
      others: [0, n - 1, at + 1, at - 1].map(String),
      values: [at],
    },
  ];
}

/** The shape of a layer's output, and what a sub-layer adds. */
function layerItems(/** @type {LookData} */ data) {
  const { d_model, d_ff, d_k } = data.model;
  const [n] = data.sublayer("encoder", 0, "feed_forward", "after").shape;
  const [before, added] = ["norm_before", "norm_added"].map((name) =>
    data.sublayer("encoder", 0, "feed_forward", /** @type {any} */ (name)).at(0)
  );
  const sides = ["before", "added"].map((name) => t(`look.quiz.options.${name}`));
  return [
    {
      key: "shape",
      at: { step: "layers", attention: "encoder", layer: 0 },
      answer: `${n} × ${d_model}`,
      others: [`${n} × ${d_ff}`, `${n} × ${d_k}`, `1 × ${d_model}`],
    },
    {
      key: "residual",
      at: { step: "residual", attention: "encoder", layer: 0, part: "feed_forward", level: "pieces", row: 0 },
      answer: sides[before >= added ? 0 : 1],
      others: sides,
      values: [isolated(data.look.source.pieces[0].text)],
    },
  ];
}

/** The target of training, and the matrix of the softmax. */
function outputItems(/** @type {LookData} */ data) {
  const { label_smoothing: given, n_tgt_symbols: size, d_model, tie } = data.model;
  const epsilon = given ?? 0.1; // the paper's
  const shared = size * d_model * (tie === "all" ? 2 : 1);
  return [
    {
      key: "target",
      at: { step: "vocabulary" },
      answer: formatNumber(1 - epsilon + epsilon / size, 3),
      others: ["1.000", formatNumber(epsilon, 3), formatNumber(1 / size, 3)],
      values: [epsilon],
    },
    {
      key: tie === "none" ? "separate" : "shared",
      at: { step: "vocabulary" },
      answer: formatCount(shared),
      others: [d_model * d_model, size, shared / 4].map(formatCount),
      values: [formatCount(size), d_model],
    },
  ];
}

/** What the word that opens first looks at, by the numbers of all heads. */
function pictureItems(/** @type {LookData} */ data) {
  const units = data.rows("encoder", "words");
  const it = units.findIndex(({ text }) => /^(it|es|sie|er)$/i.test(text));
  const row = it >= 0 ? it : Math.floor((units.length - 1) / 2);
  const strongest = (head) => {
    return argmax(data.weights(head, "words").subarray(row * units.length, (row + 1) * units.length));
  };
  const layer = data.model.n_encoder_layers - 1;
  const heads = Array.from(
    { length: data.model.n_heads },
    (_, head) => strongest({ attention: "encoder", layer, head }),
  );
  const at = { step: "heads", attention: "encoder", layer, head: 0, level: "words", row };
  const elsewhere = heads.filter((column) => column !== row).length;
  const answer = units[heads[0]].text;
  return [
    {
      key: "looks",
      at,
      answer,
      others: [row, 0, units.length - 1, 1].map((i) => units[i]?.text ?? answer),
      values: [isolated(units[row].text), layer + 1],
    },
    {
      key: "elsewhere",
      at,
      answer: String(elsewhere),
      others: [0, heads.length, 1, 2].map(String),
      values: [isolated(units[row].text), heads.length, layer + 1],
    },
  ];
}

/** The answer among some others, in an order that does not give it away. */
function optionsOf(/** @type {Item} */ { answer, others }, /** @type {number} */ number) {
  const wrong = [...new Set(others)].filter((other) => other !== answer).slice(0, N_OPTIONS - 1);
  return wrong.toSpliced((number * 7) % (wrong.length + 1), 0, answer);
}

/** The option that the reader chose; undefined if none. */
function pickedOption(/** @type {Item} */ item, /** @type {number} */ number, /** @type {StepContext} */ context) {
  return optionsOf(item, number)[Number(context.place.answers[number] ?? "-")];
}

export class QuizStep {
  constructor() {
    this.score = make("p", { class: "hint", role: "status" });
    this.list = make("ol", { class: "quiz" });
    this.element = make("div", {}, this.list, this.score);
  }

  /** @param {StepContext} context */
  update(context) {
    const items = quizItems(context.data);
    this.list.replaceChildren(...items.map((item, number) => this.#item(item, number, context)));
    const picked = items.map((item, number) => pickedOption(item, number, context));
    const right = items.filter(({ answer }, number) => picked[number] === answer).length;
    const answered = picked.filter((option) => option !== undefined).length;
    this.score.textContent = t("look.quiz.score", right, answered, items.length);
  }

  #item(/** @type {Item} */ item, /** @type {number} */ number, /** @type {StepContext} */ context) {
    const picked = pickedOption(item, number, context);
    const question = t(`look.quiz.${item.key}`, ...(item.values ?? []));
    const options = optionsOf(item, number).map((option, index) => {
      const pick = () => {
        const answers = [...context.place.answers.padEnd(number + 1, "-")].with(number, String(index)).join("");
        context.go({ answers });
        /** @type {HTMLElement} */ (this.list.children[number].querySelector("[aria-pressed=true]"))?.focus();
      };
      const button = make(
        "button",
        { type: "button", onclick: pick, "aria-pressed": String(option === picked) },
        option,
      );
      setAttribute(button, "data-right", picked !== undefined && option === item.answer);
      return button;
    });
    const seeIt = make(
      "button",
      { type: "button", class: "link", onclick: () => context.go(item.at) },
      t("look.show"),
    );
    const verdict = picked === undefined ? null : make(
      "p",
      { class: "verdict" },
      t(picked === item.answer ? "look.quiz.right" : "look.quiz.wrong", item.answer),
      " ",
      seeIt,
    );
    return make(
      "li",
      {},
      make("p", {}, question),
      make("div", { class: "options", role: "group", "aria-label": question }, options),
      verdict,
    );
  }
}
