// The stage: the paper's Figure 1 as the map, and the block that is open, on the reader's own sentence.

import { onWidth } from "./canvas.js";
import { Controls } from "./controls.js";
import { make, put, write } from "./dom.js";
import { factsOf } from "./facts.js";
import { Figure } from "./figure.js";
import { moved, settle, STOPS, walked } from "./place.js";
import { Seen, sideOfStack, stackOf } from "./seen.js";
import { ScoresStop, SoftmaxStop, ValuesStop } from "./stop_attention.js";
import { BeamStop } from "./stop_beam.js";
import { CrossStop, MaskedStop } from "./stop_decoder.js";
import { HeadsStop } from "./stop_heads.js";
import { EmbeddingStop, PiecesStop, PositionStop } from "./stop_inputs.js";
import { QkvStop } from "./stop_qkv.js";
import { FeedForwardStop, LayersStop, ResidualStop } from "./stop_sublayers.js";
import { VocabularyStop } from "./stop_vocabulary.js";
import { textsOf } from "./texts.js";
import { Walk } from "./walk.js";

const VIEWS = {
  pieces: PiecesStop,
  embedding: EmbeddingStop,
  position: PositionStop,
  qkv: QkvStop,
  scores: ScoresStop,
  softmax: SoftmaxStop,
  values: ValuesStop,
  heads: HeadsStop,
  residual: ResidualStop,
  feed_forward: FeedForwardStop,
  layers: LayersStop,
  masked: MaskedStop,
  cross: CrossStop,
  vocabulary: VocabularyStop,
  beam: BeamStop,
};

const STRIP_BELOW = 860; // px: narrower than this, the map lies on top as a strip
const WIDE_FROM = 1240; // px: from here on the questions stand beside the text

const OWN_ARROWS =
  "input, textarea, select, dialog, [contenteditable], [data-arrows], [role=tablist], [role=listbox], [role=slider]";

/** new Stage(element, {look, language, place, onPlace}); moving about asks nobody and lays out only what is open. */
export class Stage {
  #local = {}; // switches that outlive a stop
  #views = new Map();
  #onPlace;

  constructor(element, { look, language = "en", place = {}, onPlace = () => {} }) {
    this.element = element;
    this.#onPlace = onPlace;
    this.language = language;
    this.seen = new Seen(look);
    this.place = settle(place, this.seen);
    this.#build();
    this.#redraw();
    onWidth(element, (width) => this.#fit(width));
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  setLook(look) {
    const before = this.seen;
    this.seen = new Seen(look);
    const sameWords = before.look.source.text === look.source.text;
    this.place = settle(sameWords ? this.place : { ...this.place, row: null, column: null, step: 0 }, this.seen);
    this.#redraw();
  }

  setLanguage(language) {
    this.language = language;
    this.#redraw();
  }

  /** Goes to another stop, layer, head, row …; what is not named stays. */
  go(change) {
    const before = this.place;
    this.place = moved(before, change, this.seen);
    this.#redraw();
    if (JSON.stringify(before) !== JSON.stringify(this.place)) this.#onPlace({ ...this.place });
  }

  #walk(direction) {
    this.go(walked(this.place, direction, this.seen));
  }

  #build() {
    this.element.classList.add("stage");
    this.figure = new Figure({ onOpen: (block) => this.go(block.go(this.place)) });
    this.walk = new Walk({ go: (change) => this.#jump(change), step: (direction) => this.#walk(direction) });
    this.controls = new Controls({ go: (change) => this.go(change) });
    this.crumb = make("p", { class: "crumb" });
    this.title = make("h2", { class: "stop-title" });
    this.say = make("p", { class: "say" });
    this.open = make("div", { class: "open-stop" });
    this.asked = make("dl", { class: "asked-here" });
    this.try = make("p", { class: "try" });
    const text = make("header", { class: "stop-head" }, this.crumb, this.title, this.say);
    this.body = make(
      "section",
      { class: "stop", "aria-live": "off" },
      this.walk.element,
      text,
      this.controls.element,
      this.open,
      this.asked,
      this.try,
    );
    this.element.replaceChildren(this.figure.element, this.body);
  }

  /** A jump to an earlier part of the walk goes to the encoder again, where that part is told. */
  #jump({ stop }) {
    const back = stop < 12 && this.place.stop >= 12;
    this.go(back ? { stop, attention: "encoder" } : { stop });
  }

  get #context() {
    const t = textsOf(this.language);
    return {
      seen: this.seen,
      place: this.place,
      t,
      local: this.#local,
      facts: factsOf(this.seen, this.place),
      go: (change) => this.go(change),
      redraw: () => this.#redraw(),
    };
  }

  #redraw() {
    const context = this.#context;
    const { t, facts } = context;
    const told = t.stops[STOPS[this.place.stop - 1]];
    put(this.element, "lang", t.code);
    this.figure.update(context, this.strip ?? this.element.clientWidth < STRIP_BELOW);
    this.walk.update(context, STOPS.map((stop) => t.stops[stop].title(facts)));
    this.#crumb(context);
    write(this.title, told.title(facts));
    write(this.say, told.say(facts));
    this.controls.update(context);
    this.#view(context);
    this.#ask(told, t, facts);
  }

  /** A stop is built when it is first opened, and kept. */
  #view(context) {
    const stop = STOPS[this.place.stop - 1];
    if (!this.#views.has(stop)) this.#views.set(stop, new VIEWS[stop](context));
    const view = this.#views.get(stop);
    if (this.open.firstChild !== view.element) this.open.replaceChildren(view.element);
    put(this.open, "data-stop", stop);
    view.update(context);
  }

  #crumb({ place, t }) {
    const stop = STOPS[place.stop - 1];
    const stack = stackOf(place.attention);
    let parts = t.crumb(place);
    if (["pieces", "embedding", "position"].includes(stop)) parts = t.crumbSide(sideOfStack(stack));
    else if (["residual", "feed_forward", "layers"].includes(stop)) parts = t.crumbLayer(stack, place.layer);
    else if (["vocabulary", "beam"].includes(stop)) parts = t.crumbEnd;
    write(this.crumb, parts.join(" · "));
  }

  #ask(told, t, facts) {
    const questions = told.ask.map(([question, answer]) => ({ question, answer: answer(facts) }));
    const key = JSON.stringify(questions);
    if (key !== this.askedKey) {
      this.asked.replaceChildren(
        ...questions.flatMap(({ question, answer }) => [make("dt", {}, question), make("dd", {}, answer)]),
      );
    }
    this.askedKey = key;
    this.try.replaceChildren(make("b", {}, t.try), " ", told.try(facts));
  }

  #fit(width) {
    const strip = width < STRIP_BELOW;
    put(this.element, "data-strip", strip);
    put(this.element, "data-wide", width >= WIDE_FROM);
    if (strip === this.strip) return;
    this.strip = strip;
    this.figure.update(this.#context, strip);
  }

  /** ← and → walk, unless the reader is typing or inside something that has its own use for them: here, or on the page around. */
  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!this.element.isConnected || this.element.offsetParent === null) return;
    if (event.target.closest?.(OWN_ARROWS)) return;
    event.preventDefault();
    this.#walk(step);
  }
}
