// The map: Figure 1 of the paper with this model's own layers. Every block opens its stop; the way that the
// data has taken so far is lit.

import { draw, make, put } from "./dom.js";
import { blockOf, blocksOf } from "./figure_blocks.js";
import { stripLayout, tallLayout } from "./figure_layout.js";

function shortened(words, most) {
  let text = "";
  for (const { text: next } of words) {
    if (text.length + next.length > most) return text ? `${text} …` : `${next.slice(0, most)}…`;
    text += (text ? " " : "") + next;
  }
  return text;
}

export class Figure {
  #blocks = new Map();

  constructor({ onOpen }) {
    this.onOpen = onOpen;
    this.element = make("nav", { class: "figure", onkeydown: (event) => this.#key(event) });
  }

  update(context, strip) {
    const { seen, place, t } = context;
    const key = [seen.model.norm, seen.model.n_encoder_layers, seen.model.n_decoder_layers, strip, t.code].join();
    if (key !== this.key) this.#build(context, strip);
    this.key = key;
    this.#name(context);
    this.#light(place);
  }

  #build({ seen, t }, strip) {
    const { model } = seen;
    this.list = blocksOf(model);
    const layout = strip
      ? stripLayout(this.list)
      : tallLayout(this.list, Math.max(model.n_encoder_layers, model.n_decoder_layers));
    this.layout = layout;
    this.#blocks.clear();
    const frames = [];
    const shapes = [];
    for (const block of this.list) {
      if (!layout.boxes.has(block.id)) continue;
      (block.kind === "layer" ? frames : shapes).push(this.#block(block, layout, t));
    }
    this.wires = this.#wires(layout);
    this.picture = draw(
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
    );
    this.element.replaceChildren(this.picture);
    put(this.element, "aria-label", t.figure);
  }

  #block(block, layout, t) {
    const { x, y, w, h } = layout.boxes.get(block.id);
    const isFrame = block.kind === "layer";
    const label = draw("text", isFrame ? this.#frameLabel(block, layout) : { x: x + w / 2, y: y + h / 2 });
    label.textContent = isFrame
      ? String(block.layer + 1)
      : h < 10
      ? ""
      : (layout.kind === "strip" ? t.shortBlocks : t.blocks)[block.kind];
    const parts = [draw("rect", { x, y, width: w, height: h, rx: isFrame ? 6 : 3 }), label];
    if (isFrame) parts.push(this.#handle(block, layout));
    if (block.kind === "position" && layout.kind === "tall") {
      parts.push(draw("path", { class: "figure-wave", d: wave(x + 12, y + h / 2) }));
    }
    const shape = draw("g", {
      class: `block block-${block.kind} of-${block.stack}`,
      role: "button",
      tabindex: -1,
      "data-block": block.id,
      "aria-label": t.blockName(block),
      onclick: () => this.onOpen(block),
    }, ...parts);
    this.#blocks.set(block.id, { block, shape, label });
    return shape;
  }

  #frameLabel(block, layout) {
    const { x, y, w, h } = layout.boxes.get(block.id);
    if (layout.kind === "strip") return { x: x + 9, y: y + 8, class: "frame-number" };
    return { x: block.stack === "encoder" ? x - 10 : x + w + 10, y: y + h / 2, class: "frame-number" };
  }

  /** A layer's number is small: something larger around it takes the click. */
  #handle(block, layout) {
    const { x, y, w, h } = layout.boxes.get(block.id);
    const box = layout.kind === "strip"
      ? { x, y, width: w, height: 14 }
      : { x: block.stack === "encoder" ? x - 20 : x + w, y, width: 20, height: h };
    return draw("rect", { ...box, class: "handle" });
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
      wires.push({ until: block.id, shape: draw("path", { class: `wire of-${block.stack}`, d }) });
    });
    if (layout.kind === "tall") wires.push(...this.#roundabouts(layout));
    return [...wires, ...this.#acrossWires(layout)];
  }

  /** The residual connection: from below a sub-layer around it to where it is added. */
  #roundabouts(layout) {
    return this.list
      .filter((block) => block.kind === "add" || block.kind === "add_norm")
      .map((block) => {
        const first = layout.boxes.get(`${block.near}.norm`) ?? layout.boxes.get(block.near);
        const last = layout.boxes.get(block.id);
        const outside = block.stack === "encoder" ? last.x : last.x + last.w;
        const out = block.stack === "encoder" ? outside - 4 : outside + 4;
        const bottom = first.y + first.h + 2;
        const d = `M${last.x + last.w / 2} ${bottom}H${out}V${last.y + last.h / 2}H${outside}`;
        return { until: block.id, shape: draw("path", { class: `wire roundabout of-${block.stack}`, d }) };
      });
  }

  /** Keys and values: from the encoder's top to every layer of the decoder. */
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
      const label = draw("text", {
        class: "wire-label",
        x: layout.kind === "tall" ? trunk - 20 : top.x + top.w + 22,
        y: layout.kind === "tall" ? top.y - 22 : 42,
      });
      label.textContent = i ? "" : "K, V";
      return { until: block.id, shape: draw("g", { class: "wire across" }, draw("path", { d }), label) };
    });
  }

  /** The reader's own words at both ends of the figure. */
  #name({ seen: { look } }) {
    if (this.layout.kind === "strip") return;
    const say = (id, words) => {
      this.#blocks.get(id).label.textContent = shortened(words, 17);
    };
    say("encoder.pieces", look.source.words);
    say("decoder.pieces", look.target.inputs.words);
    say("output", look.target.outputs.words);
  }

  #light(place) {
    const here = this.list.findIndex((block) => block.id === blockOf(place));
    const order = new Map(this.list.map((block, i) => [block.id, i]));
    const standing = this.list[here];
    const shownHere = this.#blocks.has(standing.id) ? standing.id : standing.near;
    for (const [id, { block, shape }] of this.#blocks) {
      const within = standing.kind === "layer" && block.stack === standing.stack && block.layer === standing.layer;
      put(shape, "data-passed", order.get(id) <= here || within);
      put(shape, "data-here", id === shownHere);
      put(shape, "aria-current", id === shownHere ? "step" : null);
      put(shape, "tabindex", id === shownHere ? 0 : -1);
    }
    for (const { until, shape } of this.wires) put(shape, "data-passed", order.get(until) <= here);
    this.#reveal(shownHere);
  }

  #reveal(id) {
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
      const found = this.#blocks.get(this.list[i].id);
      if (found) return found.shape.focus();
    }
  }
}

function wave(x, y) {
  return `M${x} ${y}c3 -7 6 -7 9 0s6 7 9 0`;
}
