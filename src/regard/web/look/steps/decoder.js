// Steps 12 and 13: the decoder's masked self-attention and the encoder–decoder attention.

import { make } from "../../dom.js";
import { formatCount, formatNumber } from "../../format.js";
import { t } from "../../texts/texts.js";
import { Switch } from "../choice.js";
import { HeadDetail } from "../head_detail.js";
import { HeadGrid } from "../head_grid.js";
import { norm } from "../math.js";
import { Panel } from "../panel.js";
import { VectorBars } from "../vector_bars.js";

/** @import { StepContext } from "../look_panel.js" */

/** The grid of heads of one kind of attention, built when it is first on the page. */
class OneKindGrid {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.box = make("div");
    this.panel = new Panel("head-grid", this.box);
    this.element = this.panel.element;
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data, place } = context;
    const options = {
      look: data.look,
      data,
      level: place.level,
      selected: place,
      switched: place.switched,
      attentions: [place.attention],
      onPick: ({ layer, head }) => this.context.go({ layer, head }),
    };
    if (this.grid) this.grid.update(options);
    else this.grid = new HeadGrid(this.box, options);
    this.panel.update(t("look.headGridCaption", data.model.n_heads, data.nLayers(place.attention)));
  }
}

export class MaskedStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.switch = new Switch({ name: "mask", onTurn: (on) => this.context.go({ switched: on ? "mask" : "" }) });
    this.head = new HeadDetail({ onPick: (cell) => this.context.go(cell) });
    this.grid = new OneKindGrid(context);
    this.head.below.append(this.grid.element);
    this.element = make("div", {}, this.switch.element, this.head.element);
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const unmasked = context.place.switched === "mask";
    this.switch.element.hidden = !context.data.look.interventions.mask;
    this.switch.update(t("look.switchMask"), unmasked);
    this.head.update(context, { caption: t(unmasked ? "look.unmaskedCaption" : "look.maskedCaption") });
    this.grid.update(context);
  }
}

export class CrossStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.head = new HeadDetail({ onPick: (cell) => this.context.go(cell) });
    this.grid = new OneKindGrid(context);
    this.output = new VectorBars({ onPick: (column) => this.context.go({ column }) });
    this.outputPanel = new Panel("encoder-output", this.output.element);
    this.note = make("p", { class: "hint" });
    this.head.below.append(this.grid.element);
    this.element = make("div", {}, this.note, this.head.element, this.outputPanel.element);
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data, place } = context;
    const { alignment_head: aligned } = data.model;
    this.note.hidden = !aligned;
    if (aligned) {
      this.note.replaceChildren(
        t("look.alignmentHead", aligned.layer, aligned.head),
        " ",
        this.#alignmentButton(aligned, place),
      );
    }
    this.head.update(context, { caption: t("look.crossCaption") });
    this.grid.update(context);
    this.#showEncoderOutput(context, place);
  }

  #alignmentButton({ layer, head }, place) {
    const isHere = layer === place.layer && head === place.head;
    return isHere ? "" : make("button", {
      type: "button",
      class: "link",
      onclick: () => this.context.go({ layer, head }),
    }, t("look.show"));
  }

  /** The output of the encoder's last layer: one vector per source piece. */
  #showEncoderOutput({ data }, place) {
    const last = data.sublayer("encoder", data.model.n_encoder_layers - 1, "feed_forward", "after");
    const units = data.columns("cross", place.level);
    const rows = units.map((unit, i) => ({
      label: unit.text,
      side: "source",
      values: last.at(unit.pieces[0]),
      note: formatNumber(norm(last.at(unit.pieces[0]))),
      bold: i === place.column,
      special: unit.special,
    }));
    const n = data.look.source.pieces.length;
    const caption = t(
      "look.encoderOutputCaption",
      n,
      data.model.d_model,
      formatCount(n * data.model.d_model),
      data.model.norm === "pre",
    );
    this.output.update(rows, {
      label: caption,
      hint: "",
      describe: (i) => `${i + 1}: ${rows[place.column].label} ${formatNumber(rows[place.column].values[i])}`,
    });
    this.outputPanel.update(caption);
  }
}
