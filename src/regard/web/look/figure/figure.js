// Figure 1 of the paper with the layers of this model. A click on a block opens its step; the path of the data up to
// the current step is highlighted.

import { make, makeSvg, setAttribute } from "../../dom.js";
import { language, t } from "../../texts/texts.js";
import { blockOf, blocksOf } from "./blocks.js";
import { narrowLayout, tallLayout } from "./layout.js";

/** The first words, up to a number of characters. */
function shortened(words, max) {
  let text = "";
  for (const { text: next } of words) {
    if (text.length + next.length > max) return text ? `${text} …` : `${next.slice(0, max)}…`;
    text += (text ? " " : "") + next;
  }
  return text;
}

/** @import { StepContext } from "../look_panel.js" */
/** @import { Block } from "./blocks.js" */

export class Figure {
  #blocks = new Map();

  /** @param {{ onOpen: (block: Block) => void }} callbacks */
  constructor({ onOpen }) {
    this.onOpen = onOpen;
    this.element = make("nav", { class: "figure", onkeydown: (event) => this.#key(event) });
  }

  /**
   * @param {StepContext} context
   * @param {boolean} narrow as a strip above the text
   */
  update(context, narrow) {
    const { data, place } = context;
    const key = [data.model.norm, data.model.n_encoder_layers, data.model.n_decoder_layers, narrow, language()].join();
    if (key !== this.key) this.#build(context, narrow);
    this.key = key;
    this.#writeWords(context);
    this.#highlight(place);
  }

  #build({ data }, narrow) {
    const { model } = data;
    this.list = blocksOf(model);
    const layout = narrow
      ? narrowLayout(this.list)
      : tallLayout(this.list, Math.max(model.n_encoder_layers, model.n_decoder_layers));
    this.layout = layout;
    this.#blocks.clear();
    const frames = [];
    const shapes = [];
    for (const block of this.list) {
      if (!layout.boxes.has(block.id)) continue;
      (block.kind === "layer" ? frames : shapes).push(this.#block(block, layout));
    }
    this.wires = this.#wires(layout);
    this.shapes = layout.kind === "tall" ? ["encoder", "decoder"].map((stack) => this.#shapeLabel(stack, layout)) : [];
    this.picture = makeSvg(
      "svg",
      {
        class: `figure-${layout.kind}`,
        viewBox: `0 0 ${layout.width} ${layout.height}`,
        width: layout.width,
        height: layout.height,
        role: "group",
      },
      ...frames,
      ...this.wires.map((wire) => wire.shape),
      ...shapes,
      ...this.shapes.map(({ label }) => label),
    );
    this.element.replaceChildren(this.picture);
    setAttribute(this.element, "aria-label", t("look.figure"));
  }

  #block(block, layout) {
    const { x, y, w, h } = layout.boxes.get(block.id);
    const isFrame = block.kind === "layer";
    const names = layout.kind === "narrow" ? "look.shortBlocks" : "look.blocks";
    const label = makeSvg("text", isFrame ? this.#frameLabel(block, layout) : { x: x + w / 2, y: y + h / 2 });
    label.textContent = isFrame ? String(block.layer + 1) : h < 10 ? "" : t(`${names}.${block.kind}`);
    /** @type {SVGElement[]} */
    const parts = [makeSvg("rect", { x, y, width: w, height: h, rx: isFrame ? 6 : 3 }), label];
    if (isFrame) parts.push(this.#clickArea(block, layout));
    if (block.kind === "position" && layout.kind === "tall") {
      parts.push(makeSvg("path", { class: "figure-wave", d: wave(x + 12, y + h / 2) }));
    }
    const shape = makeSvg("g", {
      class: `block block-${block.kind} of-${block.stack}`,
      role: "button",
      tabindex: -1,
      "data-block": block.id,
      "aria-label": t("look.blockName", block),
      onclick: () => this.onOpen(block),
    }, ...parts);
    this.#blocks.set(block.id, { block, shape, label });
    return shape;
  }

  /** Where the shape of what flows into the first layer is written, beside the arrow. */
  #shapeLabel(stack, layout) {
    const { x, y, w } = layout.boxes.get(`${stack}.position`);
    return { stack, label: makeSvg("text", { class: "shape-label", x: x + w / 2 + 6, y: y - 12 }) };
  }

  #frameLabel(block, layout) {
    const { x, y, w, h } = layout.boxes.get(block.id);
    if (layout.kind === "narrow") return { x: x + 9, y: y + 8, class: "frame-number" };
    return { x: block.stack === "encoder" ? x - 10 : x + w + 10, y: y + h / 2, class: "frame-number" };
  }

  /** A larger area around the number of a layer, for clicks. */
  #clickArea(block, layout) {
    const { x, y, w, h } = layout.boxes.get(block.id);
    const box = layout.kind === "narrow"
      ? { x, y, width: w, height: 14 }
      : { x: block.stack === "encoder" ? x - 20 : x + w, y, width: 20, height: h };
    return makeSvg("rect", { ...box, class: "click-area" });
  }

  #wires(layout) {
    const wires = [];
    const inside = this.list.filter((block) => block.kind !== "layer" && layout.boxes.has(block.id));
    inside.forEach((block, i) => {
      const before = inside[i - 1];
      if (!before || before.stack !== block.stack) return;
      const [a, b] = [layout.boxes.get(before.id), layout.boxes.get(block.id)];
      const d = layout.kind === "tall"
        ? `M${a.x + a.w / 2} ${a.y}V${b.y + b.h}`
        : `M${a.x + a.w} ${a.y + a.h / 2}H${b.x}`;
      wires.push({ until: block.id, shape: makeSvg("path", { class: `wire of-${block.stack}`, d }) });
    });
    if (layout.kind === "tall") wires.push(...this.#residualWires(layout));
    return [...wires, ...this.#acrossWires(layout)];
  }

  /** Residual connections: from below a sub-layer around it to the sum. */
  #residualWires(layout) {
    return this.list
      .filter((block) => block.kind === "add" || block.kind === "add_norm")
      .map((block) => {
        const first = layout.boxes.get(`${block.near}.norm`) ?? layout.boxes.get(block.near);
        const last = layout.boxes.get(block.id);
        const outside = block.stack === "encoder" ? last.x : last.x + last.w;
        const out = block.stack === "encoder" ? outside - 4 : outside + 4;
        const bottom = first.y + first.h + 2;
        const d = `M${last.x + last.w / 2} ${bottom}H${out}V${last.y + last.h / 2}H${outside}`;
        return { until: block.id, shape: makeSvg("path", { class: `wire residual of-${block.stack}`, d }) };
      });
  }

  /** Keys and values: from the encoder's output to every decoder layer. */
  #acrossWires(layout) {
    const encoder = this.list.filter((block) =>
      block.stack === "encoder" && block.kind !== "layer" && layout.boxes.has(block.id)
    );
    const top = layout.boxes.get(encoder.at(-1).id);
    const crosses = this.list.filter((block) => block.kind === "cross");
    return crosses.map((block, i) => {
      const box = layout.boxes.get(block.id);
      const trunk = 167;
      const d = layout.kind === "tall"
        ? `M${top.x + top.w / 2} ${top.y}V${top.y - 14}H${trunk}V${box.y + box.h / 2}H${box.x - 4}m-4 -3l4 3l-4 3`
        : `M${top.x + top.w} ${top.y + top.h / 2}h6V49H${box.x + box.w / 2}V${box.y - 3}m-3 -4l3 4l3 -4`;
      const label = makeSvg("text", {
        class: "wire-label",
        x: layout.kind === "tall" ? top.x + top.w / 2 : top.x + top.w + 22,
        y: layout.kind === "tall" ? top.y - 22 : 42,
      });
      if (!i) this.acrossLabel = label;
      return { until: block.id, shape: makeSvg("g", { class: "wire across" }, makeSvg("path", { d }), label) };
    });
  }

  /** Writes the words of the sentence at both ends of the figure, and shapes on its arrows. */
  #writeWords({ data: { look, model } }) {
    const shape = { encoder: look.source, decoder: look.target.inputs };
    const shapeOf = (stack) => `${shape[stack].pieces.length} × ${model.d_model}`;
    this.acrossLabel.textContent = this.layout.kind === "narrow" ? "K, V" : `K, V: ${shapeOf("encoder")}`;
    for (const { stack, label } of this.shapes) label.textContent = shapeOf(stack);
    if (this.layout.kind === "narrow") return;
    const setLabel = (id, words) => {
      this.#blocks.get(id).label.textContent = shortened(words, 17);
    };
    setLabel("encoder.pieces", look.source.words);
    setLabel("decoder.pieces", look.target.inputs.words);
    setLabel("output", look.target.outputs.words);
  }

  #highlight(place) {
    const here = this.list.findIndex((block) => block.id === blockOf(place));
    const order = new Map(this.list.map((block, i) => [block.id, i]));
    const current = this.list[here];
    const shownId = this.#blocks.has(current.id) ? current.id : current.near;
    for (const [id, { block, shape }] of this.#blocks) {
      const within = current.kind === "layer" && block.stack === current.stack && block.layer === current.layer;
      setAttribute(shape, "data-passed", order.get(id) <= here || within);
      setAttribute(shape, "data-here", id === shownId);
      setAttribute(shape, "aria-current", id === shownId ? "step" : null);
      setAttribute(shape, "tabindex", id === shownId ? 0 : -1);
    }
    for (const { until, shape } of this.wires) setAttribute(shape, "data-passed", order.get(until) <= here);
    this.#scrollTo(shownId);
  }

  #scrollTo(id) {
    const { x, w, y, h } = this.layout.boxes.get(id);
    const { clientWidth: across, clientHeight: down } = this.element;
    if (this.layout.width > across) this.element.scrollLeft = x + w / 2 - across / 2;
    if (this.layout.height > down) this.element.scrollTop = y + h / 2 - down / 2;
  }

  #key(event) {
    const focused = this.list.findIndex((block) => this.#blocks.get(block.id)?.shape === event.target);
    if (focused < 0) return;
    if (event.key === "Enter" || event.key === " ") this.onOpen(this.list[focused]);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      this.#focus(focused, event.key === "ArrowUp" ? 1 : -1);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #focus(from, step) {
    for (let i = from + step; i >= 0 && i < this.list.length; i += step) {
      const entry = this.#blocks.get(this.list[i].id);
      if (entry) return entry.shape.focus();
    }
  }
}

function wave(x, y) {
  return `M${x} ${y}c3 -7 6 -7 9 0s6 7 9 0`;
}
