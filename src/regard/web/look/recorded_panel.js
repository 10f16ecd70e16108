// "Look inside" for a model that is no Transformer: what it predicted, its attention if it has one, and the vectors that
// it recorded.

import { make, setAttribute, table, wordElement } from "../dom.js";
import { formatNumber, formatValue, formatWeight, percent } from "../format.js";
import { language, onLanguage, t } from "../texts/texts.js";
import { NARROW_BELOW, onWidth } from "./canvas.js";
import { headTable } from "./head_detail.js";
import { HeatMap } from "./heat_map.js";
import { imagePanels } from "./image_panel.js";
import { decodeArray } from "./look_data.js";
import { maxAbs, norm } from "./math.js";
import { hopsPanel, isHops, isMemory, memoryPanels } from "./memory_maps.js";
import { Panel } from "./panel.js";
import { VectorBars } from "./vector_bars.js";

const SHOWN_ALTERNATIVES = 4;
const MAX_OPEN_SITES = 8;
const SHOWN_GUESSES = 3;

/** @typedef {{ path: string, kind: string, axes: string[], shape: number[] }} Site */

export class RecordedPanel {
  place = {};
  #look;

  /**
   * @param {HTMLElement} element
   * @param {{ look: any }} options
   */
  constructor(element, { look }) {
    this.element = element;
    element.classList.add("look", "recorded");
    this.#look = look;
    this.#draw();
    onWidth(element, (width) => setAttribute(element, "data-narrow", width < NARROW_BELOW));
    onLanguage(() => this.#draw());
  }

  /** There is only one place. */
  show() {}

  setLook(/** @type {any} */ look) {
    this.#look = look;
    this.#draw();
  }

  #draw() {
    const { model, steps, prediction, words, expected, orders, sites } = this.#look;
    const { attentions = ownAttentions(this.#look) } = this.#look;
    setAttribute(this.element, "lang", language());
    this.element.replaceChildren(
      make("h2", {}, t("look.recorded.predictions")),
      make("div", { class: "table-scroll", tabindex: 0 }, steps ? stepTable(steps) : predictionTable(prediction)),
      ...(words?.length ? [dependenceTitle(), dependenceTable(words)] : []),
      ...(expected?.length ? [make("h2", {}, t("look.recorded.expected")), expectedTable(expected, orders ?? [])] : []),
      ...orderPanels(this.#look),
      ...(this.#look.image ? imagePanels(this.#look) : []),
      ...attentions.map((/** @type {any} */ attention) =>
        make("div", { class: "maps" }, mapPanels(this.#look, attention))
      ),
      make("h2", {}, t("look.recorded.sites")),
      make("p", { class: "note" }, t("look.recorded.how", model?.size)),
      ...this.#sitePanels(sites.filter(isPanel)),
    );
  }

  /** The panels of all sites. Of many, those between the first and the last of each sentence open with a click. */
  #sitePanels(/** @type {Site[]} */ sites) {
    const panels = (/** @type {Site} */ site) =>
      isMemory(site)
        ? memoryPanels(this.#look, site)
        : [isHops(site) ? hopsPanel(this.#look, site) : sitePanel(this.#look, site)];
    const drawn = sites.filter(isDrawn);
    const isInside = (/** @type {Site} */ site, /** @type {number} */ i) =>
      [drawn[i - 1], drawn[i + 1]].every((near) => near?.axes[0] === site.axes[0]);
    if (drawn.length <= MAX_OPEN_SITES) return sites.flatMap(panels);
    return drawn.flatMap((site, i) => isInside(site, i) ? [foldedSite(site, () => panels(site))] : panels(site));
  }
}

/** Of other sites there is only the size to show. */
const isDrawn = (/** @type {Site} */ site) =>
  isMemory(site) || isHops(site) || (site.axes.at(-1) === "unit" && site.axes.length <= 2);

/** A site whose panels are drawn when it is opened. */
function foldedSite(/** @type {Site} */ site, /** @type {() => Element[]} */ panels) {
  const box = make("div");
  const draw = () => details.open && !box.firstChild && box.append(...panels());
  const details = make("details", { class: "folded-site", ontoggle: draw }, make("summary", {}, captionOf(site)), box);
  return details;
}

/** Predictions and weights are shown instead of what they are made of. */
const isPanel = (/** @type {Site} */ { kind }) => !["logits", "scores", "mask", "attention"].includes(kind);

/** The tokens of a translation, and what else was likely. */
function stepTable(/** @type {any[]} */ steps) {
  const others = ({ chosen, top }) => top.filter(({ id }) => id !== chosen.id).slice(0, SHOWN_ALTERNATIVES);
  return table(
    t("look.recorded.predictions"),
    [t("look.token"), t("look.probability"), t("look.recorded.others")],
    steps.map((step) => [
      wordElement(step.chosen.text, "target"),
      percent(step.chosen.probability),
      make(
        "span",
        {},
        others(step).flatMap(({ text, probability }, i) => [
          i ? ", " : "",
          wordElement(text),
          ` ${percent(probability)}`,
        ]),
      ),
    ]),
  );
}

/** The fields of a prediction of any task. */
function predictionTable(/** @type {Record<string, any>} */ prediction) {
  const rows = Object.entries(prediction).map(([name, value]) => [name, formatValue(value)]);
  return table(t("look.recorded.predictions"), [t("look.recorded.field"), t("look.value")], rows);
}

const dependenceTitle = () => make("h2", {}, t("look.recorded.words"));

/** The words of a classified text: how probable its label is without each of them. */
function dependenceTable(/** @type {any[]} */ words) {
  return make(
    "div",
    { class: "table-scroll", tabindex: 0 },
    table(
      t("look.recorded.words"),
      [t("look.recorded.word"), t("look.recorded.without"), t("look.recorded.gradient")],
      words.map(({ text, without, gradient }) => [
        wordElement(text, "source"),
        without === null ? "" : percent(without),
        percent(gradient),
      ]),
    ),
  );
}

/**
 * What a pre-trained encoder expects in the place of each word: when it is hidden, and in each order of the words.
 * @param {any[]} expected
 * @param {{ name: string, places: number[], probabilities: (number | null)[] }[]} orders
 */
function expectedTable(expected, orders) {
  const share = (/** @type {number | null} */ value) => value === null ? "" : percent(value);
  const guess = (/** @type {{ text: string, probability: number }} */ { text, probability }) => [
    wordElement(text, "source"),
    ` ${percent(probability)}`,
  ];
  const judges = expected.some(({ replaced }) => replaced !== null);
  const writes = expected.some(({ written }) => written !== null);
  return make(
    "div",
    { class: "table-scroll", tabindex: 0 },
    table(
      t("look.recorded.expected"),
      [
        t("look.recorded.word"),
        t("look.recorded.hidden"),
        t("look.recorded.guesses"),
        ...(judges ? [t("look.recorded.replaced")] : []),
        ...(writes ? [t("look.recorded.written")] : []),
        ...orders.map(({ name }) => nameOf("orders", name)),
      ],
      expected.map(({ text, probability, guesses, replaced, written }, i) => [
        wordElement(text, "source"),
        share(probability),
        make(
          "span",
          {},
          guesses.slice(0, SHOWN_GUESSES).flatMap((/** @type {any} */ each, /** @type {number} */ number) => [
            number ? ", " : "",
            ...guess(each),
          ]),
        ),
        ...(judges ? [share(replaced)] : []),
        ...(writes ? [make("span", {}, written ? guess(written) : [])] : []),
        ...orders.map(({ places, probabilities }) => `${places[i]}. ${share(probabilities[i])}`),
      ]),
    ),
  );
}

/** What the last order of the words lets each of them see: the words themselves, and what predicts them. */
function orderPanels(/** @type {any} */ { sites, arrays, source }) {
  const sides = { rows: "source", columns: "source" };
  return sites.filter(isOfOrder).flatMap((/** @type {Site} */ { path }) =>
    headsOf(arrays[path]).map((values) => {
      const drawn = { values, min: 0, max: 1, format: formatNumber };
      return mapPanel({ rows: source.pieces, columns: source.pieces, sides, label: nameOf("masks", path), ...drawn });
    })
  );
}

const isOfOrder = (/** @type {Site} */ { kind, path }) => kind === "mask" && path.startsWith("order.");

/** The attention of a text to itself, of a model that has no other text. */
function ownAttentions(/** @type {any} */ { sites, arrays, source }) {
  if (!source?.pieces) return [];
  const isOwn = (/** @type {Site} */ { kind, axes }) =>
    kind === "attention" && axes.slice(1).join() === "source,source";
  return sites.filter(isOwn).map(({ path }) => ({ attention: "own", path, weights: arrays[path] }));
}

/** Each head: of the translation on the source, before and after the softmax, or of a text on itself. */
function mapPanels(/** @type {any} */ look, /** @type {any} */ { attention, path, weights, scores }) {
  if (!["cross", "own"].includes(attention)) return [];
  const rows = attention === "own" ? look.source.pieces : look.target.outputs.pieces;
  const sides = { rows: attention === "own" ? "source" : "target", columns: "source" };
  const panelOf = (/** @type {string} */ caption, /** @type {any} */ drawn) =>
    mapPanel({ rows, columns: look.source.pieces, sides, label: `${path} · ${caption}`, ...drawn });
  const before = headsOf(scores).map((values) => {
    const max = maxAbs(values);
    return panelOf(t("look.recorded.scoresCaption"), { values, min: -max, max, format: formatNumber });
  });
  const after = headsOf(weights).map((values, head) => {
    const name = attention === "own" ? `${t("look.recorded.head", head + 1)} · ` : "";
    return panelOf(`${name}${t("look.mapCaption")}`, { values, min: 0, max: 1, format: formatWeight });
  });
  return [...before, ...after];
}

/**
 * The numbers of each head; none if nothing was recorded.
 * @param {any} array
 * @returns {Float32Array[]}
 */
function headsOf(array) {
  const decoded = decodeArray(array);
  return Array.from({ length: decoded?.shape[0] ?? 0 }, (_, head) => decoded.at(head));
}

function mapPanel(/** @type {any} */ drawn) {
  const view = { visible: null, row: 0, column: 0, ...drawn };
  const map = new HeatMap({ onPick: (cell) => map.update({ ...view, ...cell }) });
  const panel = new Panel("map", map.element);
  map.update(view);
  panel.update(view.label, () => headTable(view));
  return panel.element;
}

/** The vectors of a site as bars, one row per position; of anything else only the size. */
function sitePanel(/** @type {any} */ look, /** @type {Site} */ site) {
  const caption = captionOf(site);
  const rows = vectorRows(look, site);
  const vectors = new VectorBars();
  const panel = new Panel("recorded", ...(rows.length ? [vectors.element] : []));
  panel.update(caption, rows.length ? () => vectorTable(caption, rows) : null);
  vectors.update(rows, {
    label: caption,
    hint: "",
    describe: (i) => t("look.recorded.unit", i + 1),
  });
  return panel.element;
}

function captionOf(/** @type {Site} */ { path, kind, axes, shape }) {
  const size = axes.map((axis, i) => `${nameOf("axes", axis)} ${shape[i]}`).join(" × ");
  return [path, nameOf("kinds", kind), size].join(" · ");
}

function vectorRows(/** @type {any} */ look, /** @type {Site} */ { path, kind, axes, shape }) {
  if (axes.at(-1) !== "unit" || axes.length > 2) return [];
  const side = axes.length > 1 ? axes[0] : null;
  const array = decodeArray(kind === "embedding" && look.embedding ? look.embedding[side].embedded : look.arrays[path]);
  if (!array) return [];
  const pieces = { source: look.source?.pieces, target: look.target?.inputs.pieces }[side];
  return Array.from({ length: side ? shape[0] : 1 }, (_, i) => {
    const values = side ? array.at(i) : array.numbers;
    const label = pieces?.[i]?.text ?? (side ? String(i + 1) : "");
    return { label, side, values, note: formatNumber(norm(values)), special: pieces?.[i]?.special };
  });
}

/** The numbers of a single vector; the lengths of several. */
function vectorTable(caption, rows) {
  if (rows.length > 1) {
    return table(caption, [t("look.position"), t("look.length")], rows.map(({ label, note }) => [label, note]));
  }
  const numbers = Array.from(rows[0].values, (value, i) => [String(i + 1), formatNumber(value)]);
  return table(caption, [t("look.unit"), t("look.value")], numbers);
}

/** In the page's language, or as the model calls it. */
function nameOf(/** @type {"axes" | "kinds" | "orders" | "masks"} */ group, /** @type {string} */ name) {
  const key = `look.recorded.${group}.${name}`;
  return t(key) === key ? name : t(key);
}
