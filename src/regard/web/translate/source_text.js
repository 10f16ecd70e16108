// The text field of the sentence. Behind it lies a mirror of the same text, word by word: it makes the field grow, and
// it highlights words, which a text field itself cannot do.

import { make } from "../dom.js";
import { fillWithWords, splitWords } from "../words.js";

/** @typedef {(line: number | null, word: number | null) => void} OnWord both null if no word is pointed at */

export class SourceText {
  #field;
  #mirror;
  #lines = []; // of the mirror: { text, block, words }
  #highlighted = [];
  #onWord;

  /**
   * @param {HTMLTextAreaElement} field
   * @param {HTMLElement} mirror
   * @param {{ onText: (text: string) => void, onWord: OnWord }} callbacks
   */
  constructor(field, mirror, { onText, onWord }) {
    this.#field = field;
    this.#mirror = mirror;
    this.#onWord = onWord;
    field.addEventListener("input", () => {
      this.#draw();
      onText(field.value);
    });
    field.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.#atPointer(event));
    field.addEventListener("pointerleave", () => onWord(null, null));
    field.addEventListener("blur", () => onWord(null, null));
    document.addEventListener("selectionchange", () => document.activeElement === field && this.#atCaret());
  }

  /**
   * Shows this text. If it is already in the field, the caret stays where it is.
   * @param {string} text
   */
  set(text) {
    if (text === this.#field.value && this.#lines.length) return;
    if (text !== this.#field.value) this.#field.value = text;
    this.#draw();
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

  /** Updates the lines of the mirror that have changed. */
  #draw() {
    const texts = this.#field.value.split("\n");
    this.#highlighted = [];
    texts.forEach((text, index) => {
      const line = (this.#lines[index] ??= { text: null, block: this.#mirror.appendChild(make("div")), words: [] });
      if (line.text === text) return;
      line.text = text;
      line.words = fillWithWords(line.block, text, (word) => make("span", {}, word));
    });
    for (const line of this.#lines.splice(texts.length)) line.block.remove();
  }

  /** @param {PointerEvent} event */
  #atPointer({ clientX, clientY }) {
    const isWord = (element) => element.parentNode?.parentNode === this.#mirror;
    const word = document.elementsFromPoint(clientX, clientY).find(isWord);
    const line = word ? this.#lines.findIndex(({ block }) => block === word.parentNode) : -1;
    if (line < 0) this.#onWord(null, null);
    else this.#onWord(line, this.#lines[line].words.indexOf(word));
  }

  #atCaret() {
    const before = this.#field.value.slice(0, this.#field.selectionStart).split("\n");
    const line = before.length - 1;
    const column = before[line].length;
    const words = splitWords(this.#lines[line]?.text ?? "");
    const word = words.findIndex(({ text, start }) => start <= column && column <= start + text.length);
    this.#onWord(line, word < 0 ? null : word);
  }
}
