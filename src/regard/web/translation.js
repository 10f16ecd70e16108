// The translation, word by word: shaded by the model's doubt, and each word reachable by pointer, touch and arrow keys.

import { make } from "./dom.js";
import { fillWithWords } from "./words.js";

export class Translation {
  #list;
  #lines = []; // { shown, block, words }
  #marked = [];
  #active = null; // { line, word } under the arrow keys
  #onWord;
  #describe;

  /** `onWord(line, word)` when a word is pointed at, with null for none; `describe(line, word)` says it in words. */
  constructor(list, { onWord, describe }) {
    this.#list = list;
    this.#onWord = onWord;
    this.#describe = describe;
    list.addEventListener("pointerover", (event) => this.#pointed(event));
    list.addEventListener("click", (event) => this.#pointed(event, true));
    list.addEventListener("pointerleave", () => this.#activate(document.activeElement === list ? this.#active : null));
    list.addEventListener("focus", () => list.matches(":focus-visible") && this.#move(0));
    list.addEventListener("blur", () => this.#activate(null));
    list.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Show these lines: { text, words: [{probability}] or [] }. Lines that are the same object stay untouched. */
  show(lines) {
    lines.forEach((shown, number) => {
      const line = (this.#lines[number] ??= {
        shown: null,
        words: [],
        block: this.#list.appendChild(make("p", { dir: "auto", role: "presentation" })),
      });
      if (line.shown === shown) return;
      line.shown = shown;
      line.words = fillWithWords(line.block, shown.text, (text, word) => shaded(text, `word-${number}-${word}`));
      const known = shown.words.length === line.words.length;
      line.words.forEach((word, place) => known && shade(word, shown.words[place].probability));
    });
    for (const line of this.#lines.splice(lines.length)) line.block.remove();
    if (this.#active && !this.#at(this.#active)) this.#activate(null);
  }

  /** Mark these words of a line as partners. */
  mark(line, words) {
    for (const word of this.#marked) word.classList.remove("partner");
    this.#marked = words.map((number) => this.#lines[line]?.words[number]).filter(Boolean);
    for (const word of this.#marked) word.classList.add("partner");
  }

  #at({ line, word }) {
    return this.#lines[line]?.words[word];
  }

  #pointed({ target }, keep = false) {
    const word = target.closest?.("[role=option]");
    if (!word) return this.#onWord(null, null);
    const [line, number] = word.id.split("-").slice(1).map(Number);
    if (keep) this.#activate({ line, word: number });
    else this.#onWord(line, number);
  }

  #key(event) {
    const rtl = this.#lines[this.#active?.line ?? 0]?.block.matches(":dir(rtl)") ? -1 : 1;
    const steps = { ArrowRight: rtl, ArrowLeft: -rtl, ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") this.#activate(null);
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#move(steps[event.key]);
  }

  /** Go some words on from the active one, over the ends of lines too. */
  #move(by) {
    const all = this.#lines.flatMap(({ words }, line) => words.map((_, word) => ({ line, word })));
    if (!all.length) return;
    const now = all.findIndex(({ line, word }) => line === this.#active?.line && word === this.#active?.word);
    this.#activate(all[Math.max(0, Math.min(all.length - 1, Math.max(0, now) + by))]);
  }

  #activate(place) {
    const before = this.#active && this.#at(this.#active);
    before?.setAttribute("aria-selected", "false");
    before?.removeAttribute("aria-label");
    this.#active = place;
    const word = place && this.#at(place);
    if (!word) {
      this.#list.removeAttribute("aria-activedescendant");
      return this.#onWord(null, null);
    }
    word.setAttribute("aria-selected", "true");
    word.setAttribute("aria-label", this.#describe(place.line, place.word));
    this.#list.setAttribute("aria-activedescendant", word.id);
    word.scrollIntoView({ block: "nearest" });
    this.#onWord(place.line, place.word);
  }
}

const shaded = (text, id) => make("span", { class: "word", role: "option", "aria-selected": "false", id }, text);

/** Shade a word by what is missing to certainty, 0…1. Where the model's confidence is unknown, there is nothing to show. */
export function shade(word, probability) {
  if (probability === null || probability === undefined) return;
  word.style.setProperty("--doubt", Math.min(1, Math.max(0, 1 - probability)).toFixed(3));
}
