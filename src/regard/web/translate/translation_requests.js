// Translates, or predicts, while the user types: one request at a time, outdated answers dropped, known lines taken from
// the cache.

import { onReconnect, request } from "../service.js";
import { formatPrediction } from "../format.js";
import { inputsOf, translates } from "../state.js";

/** @typedef {{ lines: string[], model: string, target: string | null }} Wanted */
/**
 * @typedef {object} Result
 * @property {Wanted} for what was requested
 * @property {(any | null)[]} lines an answer per line, null if it is not there yet
 * @property {number | null} milliseconds
 * @property {boolean} waiting
 * @property {boolean} done
 * @property {any} error
 */

// In milliseconds.
const TYPING_PAUSE = 150;
const SHOW_WAITING_AFTER = 200;
// Per request; long texts appear part by part.
const MAX_LINES = 16;
const MAX_CHARACTERS = 4_000;
const MAX_CACHED_LINES = 2_000;
const BLANK = Object.freeze({
  text: "",
  words: [],
  source_words: [],
  alignment: [],
  alternatives: [],
  warnings: [],
  n_parts: 0,
});

export class TranslationRequests {
  #onResult;
  #cache = new Map();
  #timer = 0;
  #controller = null;

  /** @param {(result: Result) => void} onResult called whenever there is something new */
  constructor(onResult) {
    this.#onResult = onResult;
    onReconnect(() => this.#cache.clear());
  }

  /**
   * Translates this text after a short pause.
   * @param {string} text
   * @param {string} model
   * @param {string | null} target
   * @param {boolean} [immediately] for text that was not typed
   */
  translate(text, model, target, immediately = false) {
    clearTimeout(this.#timer);
    this.#controller?.abort();
    if (this.#cache.size > MAX_CACHED_LINES) this.#cache.clear();
    const wanted = { lines: inputsOf(text), model, target };
    if (this.#missing(wanted).length) this.#timer = setTimeout(() => this.#run(wanted), immediately ? 0 : TYPING_PAUSE);
    else this.#report(wanted, { done: true });
  }

  async #run(/** @type {Wanted} */ wanted) {
    const controller = (this.#controller = new AbortController());
    const waitingTimer = setTimeout(() => this.#report(wanted, { waiting: true }), SHOW_WAITING_AFTER);
    let milliseconds = 0;
    try {
      for (let missing = this.#missing(wanted); missing.length; missing = this.#missing(wanted)) {
        const next = firstLines(missing);
        const answer = await (translates() ? translated : predicted)(next, wanted, controller.signal);
        next.forEach((line, i) => this.#cache.set(cacheKey(wanted, line), answer.lines[i]));
        milliseconds += answer.milliseconds;
        clearTimeout(waitingTimer);
        const done = !this.#missing(wanted).length;
        this.#report(wanted, { milliseconds, done, waiting: !done });
      }
    } catch (error) {
      if (!controller.signal.aborted) this.#report(wanted, { error, done: true });
    } finally {
      clearTimeout(waitingTimer);
    }
  }

  #missing(/** @type {Wanted} */ wanted) {
    return [...new Set(wanted.lines.filter((line) => line.trim() && !this.#cache.has(cacheKey(wanted, line))))];
  }

  #report(/** @type {Wanted} */ wanted, { milliseconds = null, waiting = false, done = false, error = null }) {
    const lines = wanted.lines.map((line) => line.trim() ? (this.#cache.get(cacheKey(wanted, line)) ?? null) : BLANK);
    this.#onResult({ for: wanted, lines, milliseconds, waiting, done, error });
  }
}

async function translated(lines, { model, target }, signal) {
  const body = { text: lines, model, target, alternatives: 3, details: true };
  const { translations, milliseconds } = await request("v1/translate", { body, signal });
  return { lines: translations, milliseconds };
}

/** A prediction is shown as text. */
async function predicted(lines, { model }, signal) {
  const startedAt = performance.now();
  const { output } = await request("v1/predict", { body: { input: lines, model }, signal });
  const milliseconds = performance.now() - startedAt;
  return { lines: output.map((prediction) => ({ ...BLANK, text: formatPrediction(prediction) })), milliseconds };
}

const cacheKey = ({ model, target }, line) => JSON.stringify([model, target, line]);

/** As many lines as fit into one request, at least one. */
function firstLines(/** @type {string[]} */ lines) {
  let characters = 0;
  const first = lines.slice(0, MAX_LINES).filter((line) => (characters += line.length) <= MAX_CHARACTERS);
  return first.length ? first : lines.slice(0, 1);
}
