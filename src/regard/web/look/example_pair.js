// Two sentences that differ in one word, and what their pronouns attend to in the head that the run names. The reader
// predicts first; then both are shown side by side.

import { isolated, make, setAttribute, wordElement } from "../dom.js";
import { t } from "../texts/texts.js";
import { LookData, sidesOf } from "./look_data.js";
import { argmax } from "./math.js";
import { resolvePlace } from "./place.js";
import { bar } from "./weight_bar.js";

/** @import { StepContext } from "./look_panel.js" */
/** @typedef {{ texts: string[], head: { attention: string, layer: number, head: number } }} Examples */

const SHOWN_WORDS = 3;

export class ExamplePair {
  /** @type {LookData[] | null} */
  #data = null;
  /** @type {Examples | null} */
  #examples = null;

  constructor() {
    this.title = make("h3");
    this.hint = make("p", { class: "hint" });
    this.columns = make("div", { class: "pair" });
    this.why = make("p", { class: "hint" });
    this.show = make("button", { type: "button", class: "link", onclick: () => this.#reveal() });
    this.element = make("section", { class: "example-pair" }, this.title, this.hint, this.columns, this.why, this.show);
  }

  /** @param {StepContext} context */
  async update(context) {
    this.context = context;
    const { examples, fetchLook } = context;
    this.element.hidden = !examples;
    if (!examples || !fetchLook) return;
    if (examples !== this.#examples) {
      [this.#examples, this.#data] = [examples, null];
      this.columns.replaceChildren();
      const looks = await Promise.all(examples.texts.slice(0, 2).map(fetchLook)).catch(() => null);
      if (examples !== this.#examples) return;
      this.element.hidden = looks === null;
      this.#data = looks && looks.map((look) => new LookData(look));
    }
    if (this.#data) this.#draw();
  }

  #draw() {
    const { head } = /** @type {Examples} */ (this.#examples);
    this.title.textContent = t("look.pair");
    this.hint.textContent = t("look.pairHint", head);
    this.why.textContent = this.#guesses ? t("look.pairWhy") : "";
    this.show.textContent = t("look.show");
    const data = /** @type {LookData[]} */ (this.#data);
    this.columns.replaceChildren(...data.map((side, i) => this.#column(side, i, head)));
  }

  #column(/** @type {LookData} */ data, /** @type {number} */ index, head) {
    const place = resolvePlace({ ...head, step: "heads" }, data);
    const { attention, row } = place;
    const sides = sidesOf(attention);
    const columns = data.columns(attention, "words");
    const pronoun = data.rows(attention, "words")[row];
    const guess = this.#guesses ? this.#guesses[index] - 1 : -1;
    const words = columns.filter(({ special }) => !special).map((unit, i) => {
      const button = make(
        "button",
        { type: "button", class: "plain guess", onclick: () => this.#guess(index, i) },
        wordElement(unit.text, sides.columns),
      );
      setAttribute(button, "aria-pressed", String(guess === i));
      return button;
    });
    const weights = data.weights(place, "words").subarray(row * columns.length, (row + 1) * columns.length);
    return make(
      "div",
      {},
      make("p", { class: "guess-words", role: "group", "aria-label": data.look.source.text }, words),
      make("p", { class: "of-target", dir: "auto", lang: "de" }, data.look.target.text),
      make("p", { class: "hint" }, t(this.#guesses ? "look.pairAnswer" : "look.pairQuestion", isolated(pronoun.text))),
      this.#guesses ? this.#answer(weights, columns, sides.columns, guess) : null,
    );
  }

  /** The words with the largest weights, and whether the prediction was right. */
  #answer(weights, columns, side, guess) {
    const best = argmax(weights);
    const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, SHOWN_WORDS);
    const lines = order.map((i) =>
      make("div", { class: "bar-line" }, wordElement(columns[i].text, side), bar(weights[i]))
    );
    const verdict = guess < 0 ? "" : t(guess === best ? "look.guessRight" : "look.guessWrong");
    return make("div", { class: "bars" }, lines, make("p", { class: "verdict", role: "status" }, verdict));
  }

  /** Per sentence, the word that the reader predicts, counted from 1, or 0; null before the answers are shown. */
  get #guesses() {
    const { guesses } = /** @type {StepContext} */ (this.context).place;
    return guesses ? guesses.split(",").map(Number) : null;
  }

  #guess(/** @type {number} */ index, /** @type {number} */ word) {
    const guesses = this.#guesses ?? [0, 0];
    this.context?.go({ guesses: guesses.with(index, word + 1).join() });
  }

  /** Shows both, and goes to the head. */
  #reveal() {
    const guesses = (this.#guesses ?? [0, 0]).join();
    this.context?.go({ ...this.#examples?.head, row: null, column: null, guesses });
  }
}
