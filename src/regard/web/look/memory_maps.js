// The memory of a model over time: how much is in each of its columns after every step, as heat maps.

import { formatNumber, formatWeight } from "../format.js";
import { t } from "../texts/texts.js";
import { headTable } from "./head_detail.js";
import { HeatMap } from "./heat_map.js";
import { decodeArray } from "./look_data.js";
import { maxAbs, norm } from "./math.js";
import { Panel } from "./panel.js";

/** @import { Site } from "./recorded_panel.js" */

const NO_SYMBOL = "·"; // the label of a column that no symbol belongs to

/** Whether a site is a memory over time: (time, column, row, unit). */
export const isMemory = (/** @type {Site} */ { kind, axes }) =>
  kind === "memory" && axes.slice(1).join() === "column,row,unit";

/** One panel per row of the memory. */
export function memoryPanels(/** @type {any} */ look, /** @type {Site} */ { path, axes, shape }) {
  const array = decodeArray(look.arrays[path]);
  if (!array) return [];
  const [nTimes, nColumns, nRows] = shape;
  const side = axes[0] === "target" ? "target" : "source";
  const symbols = (side === "target" ? look.target?.outputs.pieces : look.source?.pieces) ?? [];
  const unit = (/** @type {number} */ i) => symbols[i] ?? { text: NO_SYMBOL };
  const columns = Array.from({ length: nColumns }, (_, i) => unit(i));
  const rows = Array.from({ length: nTimes }, (_, i) => (side === "target" ? unit(i) : { text: String(i) }));
  return Array.from({ length: nRows }, (_, row) => {
    const cells = Array.from(
      { length: nTimes * nColumns },
      (_, i) => norm(array.at(Math.floor(i / nColumns), i % nColumns, row)),
    );
    const label = nRows > 1 ? `${path} · ${t("look.recorded.memoryRow", row + 1)}` : path;
    return memoryPanel({
      rows,
      columns,
      sides: { rows: side, columns: side },
      values: Float32Array.from(cells),
      visible: null,
      row: 0,
      column: 0,
      label,
      min: 0,
      max: maxAbs(cells),
      format: formatNumber,
    });
  });
}

/** Whether a site is the weights that every hop gives to the sentences of a story. */
export const isHops = (/** @type {Site} */ { kind, axes }) => kind === "hops" && axes.join() === "hop,sentence";

/** One row per sentence, one column per hop. */
export function hopsPanel(/** @type {any} */ look, /** @type {Site} */ { path, shape }) {
  const array = decodeArray(look.arrays[path]);
  const [nHops, nSentences] = shape;
  const sentences = look.prediction?.sentences ?? [];
  const cells = Array.from({ length: nSentences * nHops }, (_, i) => array?.at(i % nHops, Math.floor(i / nHops)) ?? 0);
  const view = {
    rows: Array.from({ length: nSentences }, (_, i) => ({ text: sentences[i] ?? String(i + 1) })),
    columns: Array.from({ length: nHops }, (_, i) => ({ text: String(i + 1) })),
    sides: { rows: "source", columns: "source" },
    values: Float32Array.from(/** @type {number[]} */ (cells)),
    visible: null,
    row: 0,
    column: 0,
    label: path,
    min: 0,
    max: 1,
    format: formatWeight,
  };
  const panel = memoryPanel(view, t("look.recorded.hops"));
  panel.classList.add("heat-sentences");
  return panel;
}

function memoryPanel(/** @type {any} */ view, what = t("look.recorded.memory")) {
  const map = new HeatMap({ onPick: (cell) => map.update({ ...view, ...cell }) });
  const panel = new Panel("map", map.element);
  map.update(view);
  panel.update(`${view.label} · ${what}`, () => headTable(view));
  return panel.element;
}
