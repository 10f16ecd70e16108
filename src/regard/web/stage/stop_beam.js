// Stop 15: the beam as a tree that grows.

import { Slider } from "./choice.js";
import { draw, make, put, table, word } from "./dom.js";
import { shown } from "./numbers.js";
import { Panel } from "./panel.js";

const BEAM_STEP = { width: 122, height: 38, top: 20 };

/** Every node's place: a column a step, kept ones first and best on top. */
function arrange(nodes) {
  const columns = [];
  for (const node of nodes) (columns[node.step] ??= []).push(node);
  const places = new Map();
  columns.forEach((column, step) => {
    const sorted = [...column].sort((a, b) =>
      Number(b.kept || b.finished) - Number(a.kept || a.finished) || b.total - a.total
    );
    sorted.forEach((node, row) =>
      places.set(node.id, { x: 8 + step * BEAM_STEP.width, y: BEAM_STEP.top + row * BEAM_STEP.height })
    );
  });
  return {
    places,
    width: 8 + columns.length * BEAM_STEP.width,
    height: BEAM_STEP.top + Math.max(...columns.map((column) => column?.length ?? 0)) * BEAM_STEP.height,
  };
}

/** Pieces joined to text; a character that the vocabulary has not stands there as the pieces of its bytes. */
function readable(pieces) {
  const decode = (run) =>
    new TextDecoder().decode(Uint8Array.from(run.match(/[0-9A-F]{2}(?=>)/g), (byte) => parseInt(byte, 16)));
  return pieces.replace(/(?:<0x[0-9A-F]{2}>)+/g, decode).replaceAll("▁", " ");
}

/** The start mark pale, and no more letters than a column has room for. */
function shortPiece(text) {
  const [mark, rest] = text.length > 1 && text.startsWith("▁") ? ["▁", text.slice(1)] : ["", text];
  const letters = [...rest];
  const short = letters.length > 9 ? `${letters.slice(0, 8).join("")}…` : rest;
  return mark ? [draw("tspan", { class: "start-mark" }, mark), short] : [short];
}

export class BeamStop {
  constructor(context) {
    this.context = context;
    this.slider = new Slider({ name: "step", onSlide: (step) => this.#grow(step) });
    this.picture = draw("svg", { class: "beam-picture", role: "img" });
    this.scroll = make("div", { class: "beam-scroll", tabindex: 0 }, this.picture);
    this.panel = new Panel("beam", this.scroll);
    this.none = make("p", { class: "hint" });
    this.finished = make("div", { class: "finished" });
    this.element = make("div", {}, this.slider.element, this.panel.element, this.finished, this.none);
    this.shown = Infinity;
  }

  update(context) {
    this.context = context;
    const { seen, t } = context;
    const { beam } = seen.look;
    this.none.hidden = beam !== null;
    this.slider.element.hidden = this.panel.element.hidden = this.finished.hidden = beam === null;
    this.none.textContent = beam === null ? t.noBeam : "";
    if (beam === null) return;
    const key = `${t.code}`;
    if (seen !== this.seen) this.shown = Infinity;
    if (seen !== this.seen || key !== this.key) this.#build(beam, t);
    Object.assign(this, { seen, key });
    this.#show(Math.min(this.shown, this.last));
  }

  #build(beam, t) {
    const { places, width, height } = arrange(beam.nodes);
    this.last = Math.max(...beam.nodes.map((node) => node.step));
    this.parts = [];
    const edges = beam.nodes.filter((node) => node.parent !== null).map((node) => this.#edge(node, places));
    const names = beam.nodes.map((node) => this.#node(node, places));
    put(this.picture, "viewBox", `0 0 ${width} ${height}`);
    put(this.picture, "width", width);
    put(this.picture, "height", height);
    this.picture.replaceChildren(...edges, ...names);
    const ends = beam.nodes.filter((node) => node.finished).sort((a, b) => (b.score ?? b.total) - (a.score ?? a.total));
    this.byId = new Map(beam.nodes.map((node) => [node.id, node]));
    const made = table(
      t.finishedCaption,
      [t.finishedSentence, t.sumOfLogs, t.scoreAfterPenalty],
      ends.map((
        node,
      ) => [
        make("bdi", { class: "of-target" }, this.#sentence(node)),
        shown(node.total),
        node.score === null ? "–" : shown(node.score),
      ]),
    );
    made.classList.add("finished-table");
    this.finished.replaceChildren(make("p", { class: "panel-title" }, t.finishedCaption), made);
    put(this.picture, "aria-label", t.beamCaption(beam.width, this.last));
    put(this.scroll, "aria-label", t.beamCaption(beam.width, this.last));
  }

  #sentence(node) {
    const texts = [];
    for (let one = node; one && one.parent !== null; one = this.byId.get(one.parent)) texts.unshift(one.text);
    return readable(texts.filter((text) => text !== "</s>").join("")).trim() || "∅";
  }

  #edge(node, places) {
    const [from, to] = [places.get(node.parent), places.get(node.id)];
    const d = `M${from.x + 80} ${from.y}C${from.x + 100} ${from.y} ${to.x - 24} ${to.y} ${to.x - 5} ${to.y}`;
    const edge = draw("path", {
      class: "beam-edge",
      d,
      "data-kept": node.kept || node.finished,
      "data-best": node.best,
    });
    this.parts.push({ node, shape: edge });
    return edge;
  }

  #node(node, places) {
    const { x, y } = places.get(node.id);
    const text = draw("text", { x, y: y + 1, class: "beam-word" });
    text.append(...shortPiece(node.text));
    const number = draw("text", { x, y: y + 16, class: "beam-number" });
    number.textContent = node.parent === null
      ? ""
      : shown(node.finished && node.score !== null ? node.score : node.total);
    const hover = draw("title");
    hover.textContent = `${node.text}  log p ${shown(node.log_prob)}, Σ ${shown(node.total)}`;
    const shape = draw(
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
    const { t, seen } = this.context;
    const { beam } = seen.look;
    this.shown = step;
    this.slider.update(t.step, this.last, step, `${step} / ${this.last}`);
    for (const { node, shape } of this.parts) put(shape, "data-hidden", node.step > step);
    this.finished.classList.toggle("waiting", step < this.last);
    const now = beam.nodes.filter((node) => node.step === step).sort((a, b) => b.total - a.total);
    this.panel.update(
      t.beamCaption(beam.width, step),
      t,
      () =>
        table(
          t.beamCaption(beam.width, step),
          [t.piece, "log p", t.sumOfLogs, t.kept],
          now.map((
            node,
          ) => [
            word(node.text, "target"),
            shown(node.log_prob),
            shown(node.total),
            node.kept || node.finished ? t.yes : t.no,
          ]),
        ),
    );
  }

  /** The picture follows the slider. */
  #grow(step) {
    this.#show(step);
    this.scroll.scrollLeft = (step + 2) * BEAM_STEP.width - this.scroll.clientWidth;
  }
}
