// Step 15: beam search as a growing tree.

import { make, makeSvg, setAttribute, table, wordElement } from "../../dom.js";
import { formatNumber } from "../../format.js";
import { language, t } from "../../texts/texts.js";
import { Slider } from "../choice.js";
import { Panel } from "../panel.js";

/** @import { StepContext } from "../look_panel.js" */

const NODE = { width: 126, height: 38, top: 20 };

/** The position of each node: one column per step of the search, kept hypotheses first, the best on top. */
function arrange(nodes) {
  const columns = [];
  for (const node of nodes) (columns[node.step] ??= []).push(node);
  const positions = new Map();
  columns.forEach((column, step) => {
    const sorted = [...column].sort((a, b) =>
      Number(b.kept || b.finished) - Number(a.kept || a.finished) || b.total - a.total
    );
    sorted.forEach((node, row) =>
      positions.set(node.id, { x: 8 + step * NODE.width, y: NODE.top + row * NODE.height })
    );
  });
  return {
    positions,
    width: 8 + columns.length * NODE.width,
    height: NODE.top + Math.max(...columns.map((column) => column?.length ?? 0)) * NODE.height,
  };
}

/** Pieces as text; a run of byte pieces (<0xEA>…) is decoded to its character. */
function readable(pieces) {
  const decode = (run) =>
    new TextDecoder().decode(Uint8Array.from(run.match(/[0-9A-F]{2}(?=>)/g), (byte) => parseInt(byte, 16)));
  return pieces.replace(/(?:<0x[0-9A-F]{2}>)+/g, decode).replaceAll("▁", " ");
}

/** A piece with a pale start mark, shortened to the width of a column. */
function shortPiece(text) {
  const [mark, rest] = text.length > 1 && text.startsWith("▁") ? ["▁", text.slice(1)] : ["", text];
  const letters = [...rest];
  const short = letters.length > 9 ? `${letters.slice(0, 8).join("")}…` : rest;
  return mark ? [makeSvg("tspan", { class: "start-mark" }, mark), short] : [short];
}

export class BeamStep {
  /** @param {StepContext} context */
  constructor(context) {
    this.context = context;
    this.slider = new Slider({ name: "step", onSlide: (beamStep) => this.context.go({ beamStep }) });
    this.picture = makeSvg("svg", { class: "beam-picture", role: "img" });
    this.scroll = make("div", { class: "beam-scroll", tabindex: 0 }, this.picture);
    this.panel = new Panel("beam", this.scroll);
    this.none = make("p", { class: "hint" });
    this.finished = make("div", { class: "finished" });
    this.note = make("p", { class: "hint" });
    this.element = make("div", {}, this.slider.element, this.panel.element, this.finished, this.note, this.none);
    /** @type {any} */
    this.data = null;
    this.key = "";
  }

  /** @param {StepContext} context */
  update(context) {
    this.context = context;
    const { data } = context;
    const { beam } = data.look;
    this.none.hidden = beam !== null;
    this.slider.element.hidden = this.panel.element.hidden = this.finished.hidden = beam === null;
    this.none.textContent = beam === null ? t("look.noBeam") : "";
    const notes = [["beamOther", data.look.own !== undefined], ["beamEngine", context.engine === "ctranslate2"]];
    this.note.textContent = notes.filter(([, applies]) => beam && applies).map(([key]) => t(`look.${key}`)).join(" ");
    if (beam === null) return;
    const key = language();
    if (data !== this.data || key !== this.key) this.#build(beam);
    this.data = data;
    this.key = key;
    const { beamStep } = context.place;
    this.#show(Math.min(beamStep ?? this.last, this.last));
    if (beamStep !== null) this.scroll.scrollLeft = (beamStep + 2) * NODE.width - this.scroll.clientWidth;
  }

  #build(beam) {
    const { positions, width, height } = arrange(beam.nodes);
    this.last = Math.max(...beam.nodes.map((node) => node.step));
    this.parts = [];
    const edges = beam.nodes.filter((node) => node.parent !== null).map((node) => this.#edge(node, positions));
    const names = beam.nodes.map((node) => this.#node(node, positions));
    setAttribute(this.picture, "viewBox", `0 0 ${width} ${height}`);
    setAttribute(this.picture, "width", width);
    setAttribute(this.picture, "height", height);
    this.picture.replaceChildren(...edges, ...names);
    const ends = beam.nodes.filter((node) => node.finished).sort((a, b) => (b.score ?? b.total) - (a.score ?? a.total));
    this.byId = new Map(beam.nodes.map((node) => [node.id, node]));
    const finished = table(
      t("look.finishedCaption"),
      [t("look.finishedSentence"), t("look.sumOfLogs"), t("look.scoreAfterPenalty")],
      ends.map((
        node,
      ) => [
        make("bdi", { class: "of-target" }, this.#sentence(node)),
        formatNumber(node.total),
        node.score === null ? "–" : formatNumber(node.score),
      ]),
    );
    finished.classList.add("finished-table");
    this.finished.replaceChildren(make("p", { class: "panel-title" }, t("look.finishedCaption")), finished);
    setAttribute(this.picture, "aria-label", t("look.beamCaption", beam.width, this.last));
    setAttribute(this.scroll, "aria-label", t("look.beamCaption", beam.width, this.last));
  }

  #sentence(node) {
    const texts = [];
    for (let step = node; step && step.parent !== null; step = this.byId.get(step.parent)) texts.unshift(step.text);
    return readable(texts.filter((text) => text !== "</s>").join("")).trim() || "∅";
  }

  #edge(node, positions) {
    const [from, to] = [positions.get(node.parent), positions.get(node.id)];
    const d = `M${from.x + 94} ${from.y}C${from.x + 110} ${from.y} ${to.x - 22} ${to.y} ${to.x - 5} ${to.y}`;
    const edge = makeSvg("path", {
      class: "beam-edge",
      d,
      "data-kept": node.kept || node.finished,
      "data-best": node.best,
    });
    this.parts.push({ node, shape: edge });
    return edge;
  }

  #node(node, positions) {
    const { x, y } = positions.get(node.id);
    const text = makeSvg("text", { x, y: y + 1, class: "beam-word" });
    text.append(...shortPiece(node.text));
    const number = makeSvg("text", { x, y: y + 16, class: "beam-number" });
    number.textContent = node.parent === null
      ? ""
      : formatNumber(node.finished && node.score !== null ? node.score : node.total);
    const hover = makeSvg("title");
    hover.textContent = `${node.text}  log p ${formatNumber(node.log_prob)}, Σ ${formatNumber(node.total)}`;
    const shape = makeSvg(
      "g",
      {
        class: "beam-node",
        "data-kept": node.kept || node.finished,
        "data-best": node.best,
        "data-finished": node.finished,
      },
      hover,
      text,
      number,
    );
    this.parts.push({ node, shape });
    return shape;
  }

  #show(step) {
    const { data } = this.context;
    const { beam } = data.look;
    this.slider.update(t("look.step"), this.last, step, `${step} / ${this.last}`);
    for (const { node, shape } of this.parts) setAttribute(shape, "data-hidden", node.step > step);
    this.finished.classList.toggle("waiting", step < this.last);
    const now = beam.nodes.filter((node) => node.step === step).sort((a, b) => b.total - a.total);
    this.panel.update(
      t("look.beamCaption", beam.width, step),
      () =>
        table(
          t("look.beamCaption", beam.width, step),
          [t("look.token"), "log p", t("look.sumOfLogs"), t("look.kept")],
          now.map((
            node,
          ) => [
            wordElement(node.text, "target"),
            formatNumber(node.log_prob),
            formatNumber(node.total),
            node.kept || node.finished ? t("look.yes") : t("look.no"),
          ]),
        ),
    );
  }
}
