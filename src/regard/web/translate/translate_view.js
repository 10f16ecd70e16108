// The view "Translate": an explanation of the shading, the word pointed at, and an example sentence.

import { byId, make } from "../dom.js";
import { request } from "../service.js";
import { change, currentModel, onChange, state, translates } from "../state.js";
import { onLanguage, t, translateElements } from "../texts/texts.js";

export class TranslateView {
  #wordInfo = make("p", { class: "word-info" });
  #example = make("p", { class: "example" });
  #how = make("p", { class: "note" });
  #tour = make("ul", { class: "tour" }, ["look", "try", "training"].map(tourItem));
  #examples = new Map(); // model → a sentence of its validation text, or null

  /** @param {HTMLElement} element */
  constructor(element) {
    const text = (key, name = null) => make("span", { class: name, "data-text": key }, t(key));
    const scale = make("span", { class: "scale", "aria-hidden": "true" }, [0, 0.25, 0.5, 0.75, 1].map(sampleOfShading));
    const legend = make(
      "p",
      { class: "legend" },
      text("legend", "visually-hidden"),
      text("legend.sure"),
      scale,
      text("legend.unsure"),
    );
    byId("source-tools").append(this.#wordInfo);
    byId("target-tools").append(legend);
    element.append(this.#example, this.#how, this.#tour);
    translateElements(element);
    this.showWordInfo(null);
    onLanguage(() => this.showWordInfo(null));
    onLanguage(() => this.#showExample());
    onChange(["text", "model", "view", "models"], () => {
      this.#showExample();
      this.#showTour();
    });
    onChange(["model", "models"], () => {
      legend.hidden = this.#wordInfo.hidden = !translates();
      this.#showHow();
    });
    onLanguage(() => this.#showHow());
  }

  /**
   * Shows which words are aligned.
   * @param {string | null} text null shows how to find out
   * @param {boolean} [aligned] whether the model aligns words
   */
  showWordInfo(text, aligned = true) {
    this.#wordInfo.textContent = text ?? t(aligned ? "word.hint" : "word.hint.unaligned");
    this.#wordInfo.classList.toggle("is-hint", text === null);
  }

  /** What the page is for, until the reader has typed a sentence. */
  #showTour() {
    const model = currentModel();
    this.#tour.hidden = !model || !translates() || Boolean(state.text && !model.examples?.texts.includes(state.text));
    const item = (/** @type {string} */ view) => this.#tour.querySelector(`[data-view=${view}]`);
    const walks = isTransformer(model);
    item("training")?.toggleAttribute("hidden", !model?.training);
    item("try")?.toggleAttribute("hidden", !walks);
    item("look")?.lastElementChild?.setAttribute("data-text", walks ? "tour.look" : "tour.look.other");
    translateElements(this.#tour);
  }

  /** What to type for a model that does not translate. */
  #showHow() {
    const model = currentModel();
    const key = model?.is_one_input ? "story.how" : "predict.how";
    this.#how.textContent = translates() || model?.image ? "" : t(key, model?.task);
  }

  /** If the text is empty, offers a sentence that this model was validated on. */
  async #showExample() {
    this.#example.hidden = Boolean(state.text) || !currentModel()?.training || !translates();
    if (this.#example.hidden) return;
    const name = state.model;
    const suggested = currentModel()?.examples?.texts[0];
    if (!this.#examples.has(name)) this.#examples.set(name, suggested ?? (await firstSample(name)));
    const text = this.#examples.get(name);
    if (name !== state.model) return;
    this.#example.hidden = Boolean(state.text) || !text;
    const button = make("button", { class: "textlink", dir: "auto", onclick: () => change({ text }) }, text ?? "");
    this.#example.replaceChildren(t("example"), " ", button);
  }
}

/** Whether "Look inside" has a walk for the model: its encoder and decoder have heads. */
const isTransformer = (/** @type {import("../state.js").Model | null} */ model) =>
  ["n_encoder_layers", "n_decoder_layers", "n_heads"].every((name) => name in (model?.config ?? {}));

function tourItem(/** @type {string} */ view) {
  const open = () => change({ view }, { addHistory: true });
  return make(
    "li",
    { "data-view": view },
    make("button", { class: "textlink", onclick: open, "data-text": `view.${view}` }),
    " ",
    make("span", { "data-text": `tour.${view}` }),
  );
}

async function firstSample(/** @type {string} */ model) {
  try {
    return (await request(`v1/training?model=${encodeURIComponent(model)}`)).samples?.[0]?.given.source ?? null;
  } catch {
    return null; // the page works without an example
  }
}

function sampleOfShading(/** @type {number} */ doubt) {
  const sample = make("span", { class: "word" });
  sample.style.setProperty("--doubt", String(doubt));
  return sample;
}
