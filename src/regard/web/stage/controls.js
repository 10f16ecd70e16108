// What is looked at: which attention, layer and head, in words or pieces. Each stop shows what it needs of these.

import { Choice } from "./choice.js";
import { make } from "./dom.js";
import { STOPS } from "./place.js";
import { stackOf, USES } from "./seen.js";

const NEEDS = {
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
};

function numbered(n) {
  return Array.from({ length: n }, (_, i) => ({ value: i, text: String(i + 1) }));
}

export class Controls {
  constructor({ go }) {
    const change = (name, read = (value) => value) => (value) => go({ [name]: read(value) });
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

  update({ seen, place, t }) {
    const stack = stackOf(place.attention);
    const { choices } = this;
    choices.side.update(t.side, [{ value: "encoder", text: t.sides.source }, {
      value: "decoder",
      text: t.sides.target,
    }], stack);
    choices.stack.update(t.stack, [{ value: "encoder", text: t.stacks.encoder }, {
      value: "decoder",
      text: t.stacks.decoder,
    }], stack);
    choices.attention.update(t.attention, USES.map((use) => ({ value: use, text: t.shortUses[use] })), place.attention);
    choices.layer.update(t.layer, numbered(seen.nLayers(place.attention)), place.layer);
    choices.head.update(t.head, numbered(seen.model.n_heads), place.head);
    choices.level.update(
      t.level,
      [{ value: "words", text: t.words }, { value: "pieces", text: t.pieces }],
      place.level,
    );
    const needed = NEEDS[STOPS[place.stop - 1]];
    for (const [name, choice] of Object.entries(choices)) if (!needed.includes(name)) choice.element.hidden = true;
    this.element.hidden = needed.length === 0;
  }
}
