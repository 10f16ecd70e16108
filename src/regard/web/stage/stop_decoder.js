// Stops 12 and 13: the decoder's masked self-attention, and what it takes from the encoder.

import { AttentionPair } from "./attention_pair.js";
import { Switch } from "./choice.js";
import { make } from "./dom.js";
import { count, norm, shown } from "./numbers.js";
import { Panel } from "./panel.js";
import { Strips } from "./strips.js";
import { Wall } from "./wall.js";

/** The wall of one use beside its head: made when it is first on the page. */
class OneUse {
  constructor(context) {
    this.context = context;
    this.place = make("div");
    this.panel = new Panel("wall", this.place);
    this.element = this.panel.element;
  }

  update(context) {
    this.context = context;
    const { seen, place, t } = context;
    const options = {
      look: seen.look,
      seen,
      language: t.code,
      level: place.level,
      selected: place,
      attentions: [place.attention],
      onPick: (where) => this.context.go({ layer: where.layer, head: where.head }),
    };
    if (this.wall) this.wall.update(options);
    else this.wall = new Wall(this.place, options);
    this.panel.update(t.wallCaption(seen.model.n_heads, seen.nLayers(place.attention)), t);
  }
}

export class MaskedStop {
  constructor(context) {
    this.context = context;
    this.lift = new Switch({ name: "mask", onTurn: (on) => this.#turn(on) });
    this.pair = new AttentionPair({ onPick: (cell) => this.context.go(cell) });
    this.wall = new OneUse(context);
    this.pair.below.append(this.wall.element);
    this.element = make("div", {}, this.lift.element, this.pair.element);
  }

  #turn(on) {
    this.context.local.lifted = on;
    this.context.redraw();
  }

  update(context) {
    this.context = context;
    const { seen, t, local } = context;
    const masked = seen.look.interventions.mask;
    this.lift.element.hidden = !masked;
    this.lift.update(t.switchMask, Boolean(local.lifted));
    const lifted = masked && Boolean(local.lifted);
    this.pair.update(context, { change: { mask: lifted }, caption: lifted ? t.liftedCaption : t.maskedCaption });
    this.wall.update(context);
  }
}

export class CrossStop {
  constructor(context) {
    this.context = context;
    this.pair = new AttentionPair({ onPick: (cell) => this.context.go(cell) });
    this.wall = new OneUse(context);
    this.output = new Strips({ onPick: (column) => this.context.go({ column }) });
    this.outputPanel = new Panel("passes", this.output.element);
    this.note = make("p", { class: "hint" });
    this.pair.below.append(this.wall.element);
    this.element = make("div", {}, this.note, this.pair.element, this.outputPanel.element);
  }

  update(context) {
    this.context = context;
    const { seen, place, t } = context;
    const { alignment_head: aligned } = seen.model;
    this.note.hidden = !aligned;
    if (aligned) {
      this.note.replaceChildren(
        t.alignmentHead(aligned.layer, aligned.head),
        " ",
        this.#showAligned(aligned, place, t),
      );
    }
    this.pair.update(context, { caption: t.crossCaption });
    this.wall.update(context);
    this.#passes(context, place);
  }

  #showAligned({ layer, head }, place, t) {
    const isHere = layer === place.layer && head === place.head;
    return isHere
      ? ""
      : make("button", { type: "button", class: "link", onclick: () => this.context.go({ layer, head }) }, t.show);
  }

  /** The encoder's last layer, a vector a source piece. */
  #passes({ seen, t }, place) {
    const last = seen.sublayer("encoder", seen.model.n_encoder_layers - 1, "feed_forward", "after");
    const units = seen.columns("cross", place.level);
    const rows = units.map((unit, i) => ({
      label: unit.text,
      side: "source",
      values: last.at(unit.pieces[0]),
      note: shown(norm(last.at(unit.pieces[0]))),
      bold: i === place.column,
      special: unit.special,
    }));
    const n = seen.look.source.pieces.length;
    const caption = t.passesCaption(n, seen.model.d_model, count(n * seen.model.d_model), seen.model.norm === "pre");
    this.output.update(rows, {
      label: caption,
      hint: "",
      describe: (i) => `${i + 1}: ${rows[place.column].label} ${shown(rows[place.column].values[i])}`,
    });
    this.outputPanel.update(caption, t);
  }
}
