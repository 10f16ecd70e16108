// Translating while somebody writes: one request at a time, answers to old text dropped, a line that is known not asked for again.

import { ask, onReturn } from "./service.js";

const PAUSE = 150; // milliseconds without a keystroke before we ask
const PATIENCE = 200; // milliseconds before we say that we wait
const MOST_LINES = 16; // a request; long texts appear piece by piece
const MOST_LETTERS = 4_000;
const MOST_KEPT = 2_000;
const BLANK = Object.freeze({
  text: "",
  words: [],
  source_words: [],
  alignment: [],
  alternatives: [],
  warnings: [],
  n_parts: 0,
});

export class Translating {
  #show;
  #known = new Map(); // what was asked → the answer
  #timer = 0;
  #controller = null;

  /**
   * `show({ of, lines, milliseconds, waiting, done, error })` is told whenever there is something new:
   * of is what was asked for, { lines, model, target }; lines holds an answer for each line of it, null where it is not there yet.
   */
  constructor(show) {
    this.#show = show;
    onReturn(() => this.#known.clear());
  }

  /** Translate this text, soon; `atOnce` when it was not typed. */
  want(text, model, target, atOnce = false) {
    clearTimeout(this.#timer);
    this.#controller?.abort();
    if (this.#known.size > MOST_KEPT) this.#known.clear();
    const wanted = { lines: text.split("\n"), model, target };
    if (this.#missing(wanted).length) this.#timer = setTimeout(() => this.#run(wanted), atOnce ? 0 : PAUSE);
    else this.#tell(wanted, { done: true });
  }

  async #run(wanted) {
    const controller = (this.#controller = new AbortController());
    const patience = setTimeout(() => this.#tell(wanted, { waiting: true }), PATIENCE);
    let milliseconds = 0;
    try {
      for (let missing = this.#missing(wanted); missing.length; missing = this.#missing(wanted)) {
        const body = {
          text: someOf(missing),
          model: wanted.model,
          target: wanted.target,
          alternatives: 3,
          details: true,
        };
        const answer = await ask("v1/translate", { body, signal: controller.signal });
        body.text.forEach((line, place) => this.#keep(wanted, line, answer.translations[place]));
        milliseconds += answer.milliseconds;
        clearTimeout(patience);
        const done = !this.#missing(wanted).length;
        this.#tell(wanted, { milliseconds, done, waiting: !done });
      }
    } catch (error) {
      if (!controller.signal.aborted) this.#tell(wanted, { error, done: true });
    } finally {
      clearTimeout(patience);
    }
  }

  #missing(wanted) {
    return [...new Set(wanted.lines.filter((line) => line.trim() && !this.#known.has(key(wanted, line))))];
  }

  #keep(wanted, line, answer) {
    this.#known.set(key(wanted, line), answer);
  }

  #tell(wanted, { milliseconds = null, waiting = false, done = false, error = null }) {
    const lines = wanted.lines.map((line) => (line.trim() ? (this.#known.get(key(wanted, line)) ?? null) : BLANK));
    this.#show({ of: wanted, lines, milliseconds, waiting, done, error });
  }
}

const key = ({ model, target }, line) => JSON.stringify([model, target, line]);

function someOf(missing) {
  let letters = 0;
  const some = missing.slice(0, MOST_LINES).filter((line) => (letters += line.length) <= MOST_LETTERS);
  return some.length ? some : missing.slice(0, 1);
}
