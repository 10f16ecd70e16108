// The translation, word by word: shaded by the model's uncertainty; pointer, touch and arrow keys select a word.

import { make } from "../dom.js";
import { fillWithWords } from "../words.js";

/** @import { OnWord } from "./source_text.js" */

export class TranslationText {
  #list;
  #lines = []; // { shown, block, words }
  #highlighted = [];
  #active = null; // { line, word } selected by keyboard or click
  #onWord;
  #describe;

  /**
   * @param {HTMLElement} list
   * @param {{ onWord: OnWord, describe: (line: number, word: number) => string }} callbacks `describe` for screen readers
   */
  constructor(list, { onWord, describe }) {
    this.#list = list;
    this.#onWord = onWord;
    this.#describe = describe;
    list.addEventListener("pointerover", (event) => this.#point(event.target));
    list.addEventListener("click", (event) => this.#point(event.target, true));
    list.addEventListener("pointerleave", () => this.#activate(document.activeElement === list ? this.#active : null));
    list.addEventListener("focus", () => list.matches(":focus-visible") && this.#move(0));
    list.addEventListener("blur", () => this.#activate(null));
    list.addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * Shows these lines; lines that are still the same object are left as they are.
   * @param {{ text: string, words: { probability: number | null }[] }[]} lines words may be empty
   */
  show(lines) {
    lines.forEach((shown, index) => {
      const line = (this.#lines[index] ??= {
        shown: null,
        words: [],
        block: this.#list.appendChild(make("p", { dir: "auto", role: "presentation" })),
      });
      if (line.shown === shown) return;
      line.shown = shown;
      line.words = fillWithWords(line.block, shown.text, (text, word) => optionElement(text, `word-${index}-${word}`));
      if (shown.words.length !== line.words.length) return;
      line.words.forEach((word, i) => shade(word, shown.words[i].probability));
    });
    for (const line of this.#lines.splice(lines.length)) line.block.remove();
    if (this.#active && !this.#at(this.#active)) this.#activate(null);
  }

  /**
   * Highlights words of a line, and no others.
   * @param {number} line
   * @param {number[]} words
   */
  highlight(line, words) {
    for (const word of this.#highlighted) word.classList.remove("aligned");
    this.#highlighted = words.map((index) => this.#lines[line]?.words[index]).filter(Boolean);
    for (const word of this.#highlighted) word.classList.add("aligned");
  }

  #at({ line, word }) {
    return this.#lines[line]?.words[word];
  }

  #point(target, activate = false) {
    const element = target.closest?.("[role=option]");
    if (!element) return this.#onWord(null, null);
    const [line, word] = element.id.split("-").slice(1).map(Number);
    if (activate) this.#activate({ line, word });
    else this.#onWord(line, word);
  }

  #key(/** @type {KeyboardEvent} */ event) {
    const forward = this.#lines[this.#active?.line ?? 0]?.block.matches(":dir(rtl)") ? -1 : 1;
    const moves = {
      ArrowRight: forward,
      ArrowLeft: -forward,
      ArrowDown: 1,
      ArrowUp: -1,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key === "Escape") this.#activate(null);
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#move(moves[event.key]);
  }

  /** Moves by some words, also across the ends of lines. */
  #move(/** @type {number} */ by) {
    const all = this.#lines.flatMap(({ words }, line) => words.map((_, word) => ({ line, word })));
    if (!all.length) return;
    const now = all.findIndex(({ line, word }) => line === this.#active?.line && word === this.#active?.word);
    this.#activate(all[Math.max(0, Math.min(all.length - 1, Math.max(0, now) + by))]);
  }

  #activate(position) {
    const previous = this.#active && this.#at(this.#active);
    previous?.setAttribute("aria-selected", "false");
    previous?.removeAttribute("aria-label");
    this.#active = position;
    const word = position && this.#at(position);
    if (!word) {
      this.#list.removeAttribute("aria-activedescendant");
      return this.#onWord(null, null);
    }
    word.setAttribute("aria-selected", "true");
    word.setAttribute("aria-label", this.#describe(position.line, position.word));
    this.#list.setAttribute("aria-activedescendant", word.id);
    word.scrollIntoView({ block: "nearest" });
    this.#onWord(position.line, position.word);
  }
}

const optionElement = (text, id) => make("span", { class: "word", role: "option", "aria-selected": "false", id }, text);

/**
 * Shades a word by the model's uncertainty, 1 − probability; not at all if the probability is unknown.
 * @param {HTMLElement} word
 * @param {number | null | undefined} probability
 */
export function shade(word, probability) {
  if (probability === null || probability === undefined) return;
  word.style.setProperty("--doubt", Math.min(1, Math.max(0, 1 - probability)).toFixed(3));
}
