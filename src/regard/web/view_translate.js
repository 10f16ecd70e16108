// Translate: the panes are the sheet itself; here is what explains them, and a first sentence for who has none.

import { byId, make } from "./dom.js";
import { ask } from "./service.js";
import { change, model, onChange, state } from "./state.js";
import { onLanguage, t } from "./texts.js";

export class TranslateView {
  #reading = make("p", { class: "reading" });
  #example = make("p", { class: "example" });
  #examples = new Map(); // model → a sentence of its validation text, or null

  constructor(element) {
    const scale = make("span", { class: "scale", "aria-hidden": "true" }, ...[0, 0.25, 0.5, 0.75, 1].map(patch));
    const legend = make(
      "p",
      { class: "legend" },
      make("span", { class: "unseen", "data-text": "legend" }, t("legend")),
    );
    legend.append(
      make("span", { "data-text": "legend.sure" }, t("legend.sure")),
      scale,
      make("span", { "data-text": "legend.unsure" }, t("legend.unsure")),
    );
    byId("source-foot").append(this.#reading);
    byId("target-foot").append(legend);
    element.append(this.#example);
    this.read(null);
    onLanguage(() => this.read(null));
    onChange(["text", "model", "view", "language", "models"], () => this.#offer());
  }

  /** Say which words are partners; null: how to find out. */
  read(text) {
    this.#reading.textContent = text ?? t("hint.partner");
    this.#reading.classList.toggle("is-hint", text === null);
  }

  /** To somebody who has written nothing yet, offer a sentence that this model has been tested on. */
  async #offer() {
    this.#example.hidden = Boolean(state.text) || !model()?.training;
    if (this.#example.hidden) return;
    const name = state.model;
    if (!this.#examples.has(name)) this.#examples.set(name, await firstSample(name));
    const text = this.#examples.get(name);
    if (name !== state.model) return;
    this.#example.hidden = Boolean(state.text) || !text;
    this.#example.replaceChildren(
      t("example"),
      " ",
      make("button", { class: "textlink", dir: "auto", onclick: () => change({ text }) }, text ?? ""),
    );
  }
}

async function firstSample(name) {
  try {
    return (await ask(`v1/training?model=${encodeURIComponent(name)}`)).samples?.[0]?.source ?? null;
  } catch {
    return null; // an example is a kindness, not a promise
  }
}

function patch(doubt) {
  const one = make("span", { class: "word" });
  one.style.setProperty("--doubt", doubt);
  return one;
}
