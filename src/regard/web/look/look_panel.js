// "Look inside": Figure 1 of the paper, and the step of the walk that is open, for one sentence.

import { isolated, make, setAttribute, setText } from "../dom.js";
import { formatCount, formatNumber, formatWeight } from "../format.js";
import { language, onLanguage, t } from "../texts/texts.js";
import { NARROW_BELOW, onWidth } from "./canvas.js";
import { Controls, Walk } from "./controls.js";
import { Figure } from "./figure/figure.js";
import { LookData, sideOfStack, stackOf } from "./look_data.js";
import { softmax } from "./math.js";
import { movePlace, resolvePlace, stepName, STEPS, walkPlace } from "./place.js";
import { ScoresStep, SoftmaxStep, ValuesStep } from "./steps/attention.js";
import { BeamStep } from "./steps/beam.js";
import { CrossStep, MaskedStep } from "./steps/decoder.js";
import { HeadsStep } from "./steps/heads.js";
import { EmbeddingStep, PiecesStep, PositionStep } from "./steps/inputs.js";
import { QuizStep } from "./steps/quiz.js";
import { QkvStep } from "./steps/qkv.js";
import { FeedForwardStep, LayersStep, ResidualStep } from "./steps/sublayers.js";
import { VocabularyStep } from "./steps/vocabulary.js";

/** @import { Place } from "./place.js" */

/**
 * What a step needs to draw itself.
 * @typedef {object} StepContext
 * @property {LookData} data
 * @property {Place} place
 * @property {Record<string, any>} facts numbers that the texts mention
 * @property {(change: Record<string, any>) => void} go
 * @property {import("./example_pair.js").Examples | null} [examples] of the run
 * @property {string | null} [engine] that the service translates with
 * @property {(text: string) => Promise<any>} [fetchLook] the look at another sentence; not in a file
 * @property {(look: any, head: import("./head_key.js").Head) => Promise<any>} [fetchProjection] the matrices of a head; not
 *   in a file
 */

const STEP_VIEWS = {
  pieces: PiecesStep,
  embedding: EmbeddingStep,
  position: PositionStep,
  qkv: QkvStep,
  scores: ScoresStep,
  softmax: SoftmaxStep,
  values: ValuesStep,
  heads: HeadsStep,
  residual: ResidualStep,
  feed_forward: FeedForwardStep,
  layers: LayersStep,
  masked: MaskedStep,
  cross: CrossStep,
  vocabulary: VocabularyStep,
  beam: BeamStep,
  quiz: QuizStep,
};

const WIDE_FROM = 1240; // px; from here on the questions are beside the text
const FIRST_DECODER_STEP = STEPS.indexOf("masked") + 1;

// Elements that use the arrow keys themselves, here and on the page around.
const OWN_ARROWS =
  "input, textarea, select, dialog, [contenteditable], [data-arrows], [role=tablist], [role=listbox], [role=slider]";

/** Moving around sends no requests, and only the open step is laid out. */
export class LookPanel {
  #views = new Map();
  #onPlace;
  #service;

  /**
   * @param {HTMLElement} element
   * @param {{ look: any, place?: Record<string, any>, onPlace?: (place: Place) => void, service?: () => any }} options
   *   `service` returns what only the page has: examples, engine, fetchLook, fetchProjection
   */
  constructor(element, { look, place = {}, onPlace = () => {}, service = () => ({}) }) {
    this.element = element;
    this.#onPlace = onPlace;
    this.#service = service;
    this.data = new LookData(look);
    this.place = resolvePlace(place, this.data);
    this.#build();
    this.redraw();
    onWidth(element, (width) => this.#fit(width));
    onLanguage(() => this.redraw());
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * @param {any} look
   * @param {Record<string, any> | null} [place] by default the same one, as far as it does not belong to the sentence
   */
  setLook(look, place = null) {
    const sameSource = this.data.look.source.text === look.source.text;
    this.data = new LookData(look);
    const { step, attention, layer, head, level, part, switched, guesses } = this.place;
    const kept = sameSource ? this.place : { step, attention, layer, head, level, part, switched, guesses };
    this.place = resolvePlace(place ?? kept, this.data);
    this.redraw();
  }

  /** Goes to a place that need not be complete, such as that of an address. */
  show(/** @type {Record<string, any>} */ place) {
    const resolved = resolvePlace(place, this.data);
    if (JSON.stringify(resolved) === JSON.stringify(this.place)) return;
    this.place = resolved;
    this.redraw();
  }

  /**
   * Goes to another step, layer, head, row …; everything else stays.
   * @param {Record<string, any>} change
   */
  go(change) {
    const before = this.place;
    this.place = movePlace(before, change, this.data);
    this.redraw();
    if (JSON.stringify(before) !== JSON.stringify(this.place)) this.#onPlace({ ...this.place });
  }

  #walk(/** @type {number} */ direction) {
    this.go(walkPlace(this.place, direction, this.data));
  }

  #build() {
    this.element.classList.add("look");
    this.figure = new Figure({ onOpen: (block) => this.go(block.go(this.place)) });
    this.walk = new Walk({ go: (step) => this.#jump(step), walk: (direction) => this.#walk(direction) });
    this.controls = new Controls({ go: (change) => this.go(change) });
    this.breadcrumb = make("p", { class: "breadcrumb" });
    this.title = make("h2", { class: "step-title" });
    this.text = make("p", { class: "step-text" });
    this.body = make("div", { class: "step-body" });
    this.questions = make("div", { class: "questions" });
    this.try = make("p", { class: "try-this" });
    const step = make(
      "section",
      { class: "step", "aria-live": "off" },
      this.walk.element,
      make("header", { class: "step-head" }, this.breadcrumb, this.title, this.text),
      this.try,
      this.controls.element,
      this.body,
      this.questions,
    );
    this.element.replaceChildren(this.figure.element, step);
  }

  /** A jump back from the decoder's steps shows the encoder, which the earlier steps are about. */
  #jump(/** @type {number} */ step) {
    const back = step < FIRST_DECODER_STEP && this.place.step >= FIRST_DECODER_STEP;
    this.go(back ? { step, attention: "encoder" } : { step });
  }

  /** @returns {StepContext} */
  get #context() {
    const service = this.#service();
    return {
      data: this.data,
      place: this.place,
      facts: {
        ...factsOf(this.data, this.place),
        live: "fetchLook" in service,
        pair: Boolean(service.examples),
      },
      go: (change) => this.go(change),
      ...service,
    };
  }

  redraw() {
    const context = this.#context;
    const name = stepName(this.place);
    setAttribute(this.element, "lang", language());
    this.figure.update(context, this.narrow ?? this.element.clientWidth < NARROW_BELOW);
    this.walk.update(this.place, STEPS.map((step) => t(`step.${step}.title`, context.facts)));
    this.#writeBreadcrumb(name);
    setText(this.title, t(`step.${name}.title`, context.facts));
    setText(this.text, t(`step.${name}.text`, context.facts));
    this.controls.update(context);
    this.#showStep(name, context);
    this.#writeQuestions(name, context.facts);
  }

  /** A step's view is built when it is first opened, and kept. */
  #showStep(name, context) {
    if (!this.#views.has(name)) this.#views.set(name, new STEP_VIEWS[name](context));
    const view = this.#views.get(name);
    if (this.body.firstChild !== view.element) this.body.replaceChildren(view.element);
    setAttribute(this.body, "data-step", name);
    view.update(context);
  }

  #writeBreadcrumb(name) {
    const stack = stackOf(this.place.attention);
    let parts = t("look.breadcrumb", {
      ...this.place,
      attention: this.data.nameOf(this.place.attention, this.place),
    });
    if (["pieces", "embedding", "position"].includes(name)) parts = t("look.breadcrumbSide", sideOfStack(stack));
    else if (["residual", "feed_forward", "layers"].includes(name)) {
      parts = t("look.breadcrumbLayer", stack, this.place.layer);
    } else if (["vocabulary", "beam"].includes(name)) parts = t("look.breadcrumbOutput");
    else if (name === "quiz") parts = [];
    setText(this.breadcrumb, parts.join(" · "));
  }

  #writeQuestions(name, facts) {
    const questions = t(`step.${name}.questions`).map(([question, answer]) => [question, answer(facts)]);
    const key = JSON.stringify(questions);
    if (key !== this.questionsKey) {
      this.questions.replaceChildren(
        ...questions.map(([question, answer]) =>
          make("details", {}, make("summary", {}, question), make("p", {}, answer))
        ),
      );
    }
    this.questionsKey = key;
    this.try.replaceChildren(make("b", {}, t("look.try")), " ", t(`step.${name}.try`, facts));
  }

  #fit(/** @type {number} */ width) {
    const narrow = width < NARROW_BELOW;
    setAttribute(this.element, "data-narrow", narrow);
    setAttribute(this.element, "data-wide", width >= WIDE_FROM);
    if (narrow === this.narrow) return;
    this.narrow = narrow;
    this.figure.update(this.#context, narrow);
  }

  /** ← and → walk, unless the focus is in something that uses the arrow keys itself. */
  #key(/** @type {KeyboardEvent} */ event) {
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!direction || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) {
      return;
    }
    if (!this.element.isConnected || this.element.offsetParent === null) return;
    if (/** @type {Element} */ (event.target).closest?.(OWN_ARROWS)) return;
    event.preventDefault();
    this.#walk(direction);
  }
}

/** The largest weight of the selected row, with and without the division by √d_k. */
function largestWeights(data, { attention, layer, head, row, level }) {
  const query = data.rows(attention, level)[row].pieces[0];
  const scores = data.attention(attention, layer, "scores").at(head, query);
  const visible = data.attention(attention, layer, "visible")?.at(query) ?? null;
  const root = Math.sqrt(data.model.d_k);
  const largest = (values) => formatWeight(Math.max(...softmax(values, visible)));
  return { with_root: largest(scores.map((x) => x / root)), without_root: largest(scores) };
}

/** What the texts mention: sizes of the model, and numbers of the selected row. */
function factsOf(/** @type {LookData} */ data, /** @type {Place} */ place) {
  const { model, look } = data;
  const side = sideOfStack(stackOf(place.attention));
  const row = data.rows(place.attention, place.level)[place.row].text;
  return {
    ...model,
    ...largestWeights(data, place),
    size: formatCount(side === "source" ? model.n_src_symbols : model.n_tgt_symbols),
    size_target: formatCount(model.n_tgt_symbols),
    root_model: formatNumber(Math.sqrt(model.d_model)),
    root_k: formatNumber(Math.sqrt(model.d_k)),
    waves: model.positions === "sinusoidal",
    kind: model.attention,
    divides: data.divides,
    post: model.norm === "post",
    relu: model.activation === "relu",
    row: isolated(row),
    it: /^(it|es|sie|er)$/i.test(row.replace("▁", "")),
    n_rows: data.querySide(place.attention).pieces.length,
    n_source: look.source.pieces.length,
    n_layers: data.nLayers(place.attention),
    smoothing: model.label_smoothing ?? null,
    smoothed: model.label_smoothing === null
      ? ""
      : formatNumber(1 - model.label_smoothing + model.label_smoothing / model.n_tgt_symbols, 3),
    shared: formatCount(model.n_tgt_symbols * model.d_model * (model.tie === "all" ? 2 : 1)),
    beam: look.beam?.width ?? 1,
  };
}
