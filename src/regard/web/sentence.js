// The sentence, always editable. Under the text field lies an echo of the same text, word by word:
// it makes the field grow, and it carries the marks that a text field itself can not show.

import { make } from "./dom.js";
import { fillWithWords, wordsOf } from "./words.js";

export class Sentence {
  #field;
  #echo;
  #lines = []; // of the echo: { text, block, words }
  #marked = [];
  #onWord;

  /** `onText(text)` when somebody has written; `onWord(line, word)` when one is pointed at, with null for none. */
  constructor(field, echo, { onText, onWord }) {
    this.#field = field;
    this.#echo = echo;
    this.#onWord = onWord;
    field.addEventListener("input", () => {
      this.#draw();
      onText(field.value);
    });
    field.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.#pointed(event));
    field.addEventListener("pointerleave", () => onWord(null, null));
    field.addEventListener("blur", () => onWord(null, null));
    document.addEventListener("selectionchange", () => document.activeElement === field && this.#atCaret());
  }

  /** Show this text; the caret of somebody who is writing stays where it is. */
  set(text) {
    if (text === this.#field.value && this.#lines.length) return;
    if (text !== this.#field.value) this.#field.value = text;
    this.#draw();
  }

  /** Mark these words of a line as partners. */
  mark(line, words) {
    for (const word of this.#marked) word.classList.remove("partner");
    this.#marked = words.map((number) => this.#lines[line]?.words[number]).filter(Boolean);
    for (const word of this.#marked) word.classList.add("partner");
  }

  /** Rewrite the lines of the echo that have changed. */
  #draw() {
    const texts = this.#field.value.split("\n");
    this.#marked = [];
    texts.forEach((text, number) => {
      const line = (this.#lines[number] ??= { text: null, block: this.#echo.appendChild(make("div")), words: [] });
      if (line.text === text) return;
      line.text = text;
      line.words = fillWithWords(line.block, text, (word) => make("span", {}, word));
    });
    for (const line of this.#lines.splice(texts.length)) line.block.remove();
  }

  #pointed({ clientX, clientY }) {
    const under = document.elementsFromPoint(clientX, clientY).find((one) => one.parentNode?.parentNode === this.#echo);
    const line = under ? this.#lines.findIndex(({ block }) => block === under.parentNode) : -1;
    if (line < 0) this.#onWord(null, null);
    else this.#onWord(line, this.#lines[line].words.indexOf(under));
  }

  #atCaret() {
    const before = this.#field.value.slice(0, this.#field.selectionStart).split("\n");
    const line = before.length - 1;
    const column = before[line].length;
    const words = wordsOf(this.#lines[line]?.text ?? "");
    const word = words.findIndex(({ text, start }) => start <= column && column <= start + text.length);
    this.#onWord(line, word < 0 ? null : word);
  }
}
