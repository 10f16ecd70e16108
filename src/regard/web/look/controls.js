// The steps of the walk, and what is shown: attention, layer, head, words or pieces. Each step has the controls it needs.

import { make, setAttribute, setText } from "../dom.js";
import { t } from "../texts/texts.js";
import { Choice } from "./choice.js";
import { ATTENTION_KINDS, stackOf } from "./look_data.js";
import { stepName, STEPS } from "./place.js";

/** @import { StepContext } from "./look_panel.js" */

const CONTROLS_OF_STEP = {
  pieces: ["side"],
  embedding: ["side"],
  position: ["side"],
  qkv: ["attention", "layer", "head", "level"],
  scores: ["attention", "layer", "head", "level"],
  softmax: ["attention", "layer", "head", "level"],
  values: ["attention", "layer", "head", "level"],
  heads: ["attention", "layer", "head", "level"],
  residual: ["stack", "layer", "level"],
  feed_forward: ["stack", "layer", "level"],
  layers: ["stack", "level"],
  masked: ["layer", "head", "level"],
  cross: ["layer", "head", "level"],
  vocabulary: [],
  beam: [],
  quiz: [],
};

function numbered(n) {
  return Array.from({ length: n }, (_, i) => ({ value: i, text: String(i + 1) }));
}

/** The choices of a step. */
export class Controls {
  /** @param {{ go: (change: Record<string, any>) => void }} callbacks */
  constructor({ go }) {
    const change = (name, convert = (value) => value) => (value) => go({ [name]: convert(value) });
    this.choices = {
      side: new Choice({ name: "side", onPick: change("attention") }),
      stack: new Choice({ name: "stack", onPick: change("attention") }),
      attention: new Choice({ name: "attention", onPick: change("attention") }),
      layer: new Choice({ name: "layer", onPick: change("layer", Number) }),
      head: new Choice({ name: "head", onPick: change("head", Number) }),
      level: new Choice({ name: "level", onPick: change("level") }),
    };
    this.element = make("div", { class: "controls" }, Object.values(this.choices).map((choice) => choice.element));
  }

  /** @param {StepContext} context */
  update({ data, place }) {
    const stack = stackOf(place.attention);
    const { choices } = this;
    choices.side.update(
      t("look.side"),
      [{ value: "encoder", text: t("look.sides.source") }, { value: "decoder", text: t("look.sides.target") }],
      stack,
    );
    choices.stack.update(
      t("look.stack"),
      [{ value: "encoder", text: t("look.stacks.encoder") }, { value: "decoder", text: t("look.stacks.decoder") }],
      stack,
    );
    choices.attention.update(
      t("look.attention"),
      ATTENTION_KINDS.map((kind) => ({ value: kind, text: t(`look.shortAttentionNames.${kind}`) })),
      place.attention,
    );
    choices.layer.update(t("look.layer"), numbered(data.nLayers(place.attention)), place.layer);
    choices.head.update(t("look.head"), numbered(data.model.n_heads), place.head);
    choices.level.update(
      t("look.level"),
      [{ value: "words", text: t("look.words") }, { value: "pieces", text: t("look.tokens") }],
      place.level,
    );
    const needed = CONTROLS_OF_STEP[stepName(place)];
    for (const [name, choice] of Object.entries(choices)) if (!needed.includes(name)) choice.element.hidden = true;
    this.element.hidden = needed.length === 0;
  }
}

/** The numbered steps of the walk, with buttons for one step back and one further. */
export class Walk {
  /** @param {{ go: (step: number) => void, walk: (direction: number) => void }} callbacks */
  constructor({ go, walk }) {
    const arrow = (name, by) => ({ type: "button", class: "walk-arrow", "data-walk": name, onclick: () => walk(by) });
    this.backName = make("span", { class: "walk-to" });
    this.nextName = make("span", { class: "walk-to" });
    this.back = make("button", arrow("back", -1), "← ", this.backName);
    this.next = make("button", arrow("next", 1), this.nextName, " →");
    this.steps = STEPS.map((name, i) =>
      make(
        "button",
        { type: "button", class: "walk-step", "data-step": name, onclick: () => go(i + 1) },
        make("span", { class: "walk-number" }, String(i + 1)),
        make("span", { class: "walk-name" }),
      )
    );
    const list = make("ol", { class: "walk-steps" }, this.steps.map((step) => make("li", {}, step)));
    this.element = make("nav", { class: "walk" }, this.back, list, this.next);
  }

  /**
   * @param {{ step: number }} place
   * @param {string[]} titles
   */
  update({ step }, titles) {
    setAttribute(this.element, "aria-label", t("look.walk"));
    setAttribute(this.back, "aria-label", t("look.back"));
    setAttribute(this.next, "aria-label", t("look.next"));
    this.back.disabled = step === 1;
    this.next.disabled = step === STEPS.length;
    setText(this.backName, t("look.stops")[step - 2] ?? "");
    setText(this.nextName, t("look.stops")[step] ?? "");
    this.steps.forEach((button, i) => {
      setText(/** @type {Element} */ (button.lastChild), t("look.stops")[i]);
      setAttribute(button, "aria-label", `${i + 1}. ${t("look.stops")[i]}: ${titles[i]}`);
      setAttribute(button, "title", `${i + 1}. ${titles[i]}`);
      setAttribute(button, "aria-current", i + 1 === step ? "step" : null);
      setAttribute(button, "data-passed", i + 1 < step);
    });
  }
}
