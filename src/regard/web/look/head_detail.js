// One head in detail: its weights as a heat map and as lines, and the calculation of one cell.

import { make, numberElement, table, wordElement } from "../dom.js";
import { formatNumber, formatWeight } from "../format.js";
import { t } from "../texts/texts.js";
import { AttentionLines } from "./attention_lines.js";
import { Cell } from "./cell.js";
import { HeatMap } from "./heat_map.js";
import { sidesOf } from "./look_data.js";
import { maxAbs } from "./math.js";
import { Panel } from "./panel.js";

/** @import { Unit } from "../words.js" */
/** @import { StepContext } from "./look_panel.js" */

/**
 * What is drawn of a head.
 * @typedef {object} HeadView
 * @property {Unit[]} rows
 * @property {Unit[]} columns
 * @property {{ rows: string, columns: string }} sides the languages
 * @property {Float32Array} values row-major
 * @property {Float32Array | null} visible 0 where the mask hides the key
 * @property {number} row the selected cell
 * @property {number} column
 * @property {string} label
 * @property {number} min 0 if no value is negative, else −max
 * @property {number} max the value in full colour; 0 has none
 * @property {(value: number) => string} format
 */

/**
 * The weights of a head, or its scores before the softmax.
 * @param {Pick<StepContext, "data" | "place">} context
 * @param {"weights" | "scores"} [kind]
 * @returns {HeadView}
 */
export function headView({ data, place }, kind = "weights") {
  const { attention, level } = place;
  return {
    rows: data.rows(attention, level),
    columns: data.columns(attention, level),
    sides: sidesOf(attention),
    visible: data.visible(place, level),
    row: place.row,
    column: place.column,
    label: t("look.headName", { ...place, attention: data.nameOf(attention, place) }),
    ...(kind === "weights"
      ? { values: data.weights(place, level), min: 0, max: 1, format: formatWeight }
      : { values: data.scores(place, level), ...scoreRange(data, place), format: formatNumber }),
  };
}

/** The largest score that the model computes; the same with the switch, so that its effect can be seen. */
function scoreRange(data, { switched: _, ...head }) {
  const visible = data.visible(head, "pieces");
  const max = maxAbs(data.scores(head, "pieces").map((x, i) => (visible && !visible[i] ? 0 : x)));
  return { min: -max, max };
}

/**
 * All numbers of the heat map.
 * @param {HeadView} view
 */
export function headTable(view) {
  const head = [t("look.attendsTo"), ...view.columns.map((unit) => wordElement(unit.text, view.sides.columns))];
  const rows = view.rows.map((unit, r) => [
    wordElement(unit.text, view.sides.rows),
    ...view.columns.map((_, c) => {
      const i = r * view.columns.length + c;
      return view.visible && !view.visible[i] ? "–" : view.format(view.values[i]);
    }),
  ]);
  return table(view.label, head, rows);
}

/** `below` has space for another element beside the cell. */
export class HeadDetail {
  /** @param {{ onPick: (cell: { row: number, column?: number }) => void, lines?: boolean }} options */
  constructor({ onPick, lines = true }) {
    this.map = new HeatMap({ onPick, onPoint: (at) => this.#showValue(at) });
    this.readout = make("p", { class: "readout number", "aria-live": "polite" });
    this.scale = make("p", { class: "scale-legend number" });
    this.mapPanel = new Panel("map", this.map.element, this.scale, this.readout);
    this.lines = lines ? new AttentionLines({ onPick }) : null;
    this.linesPanel = lines ? new Panel("lines", this.lines.element) : null;
    this.cell = new Cell();
    this.pair = make("div", { class: "pair" }, this.mapPanel.element, this.linesPanel?.element);
    this.below = make("div", { class: "pair" }, this.cell.element);
    this.element = make("div", { class: "head-detail" }, this.pair, this.below);
  }

  /**
   * @param {StepContext} context
   * @param {{ kind?: "weights" | "scores", caption?: string }} [options]
   */
  update(context, { kind = "weights", caption = t("look.mapCaption") } = {}) {
    this.view = headView(context, kind);
    this.map.update(this.view);
    this.mapPanel.update(caption, () => headTable(this.view));
    this.#showScale();
    this.lines?.update(this.view);
    this.linesPanel?.update(t("look.linesCaption"));
    this.cell.update(context);
    this.#showValue(null);
  }

  /** What the colours of signed values mean. */
  #showScale() {
    const { min, max, format } = this.view;
    this.scale.hidden = min === 0;
    const strip = make("span", { class: "scale-strip", "aria-hidden": "true" });
    this.scale.replaceChildren(`≤ ${format(min)}`, strip, `≥ ${format(max)}`);
  }

  #showValue(at) {
    const { rows, columns, values, visible, format } = this.view;
    const { row, column } = at ?? this.view;
    const i = row * columns.length + column;
    this.readout.replaceChildren(
      wordElement(rows[row].text, this.view.sides.rows),
      " → ",
      wordElement(columns[column].text, this.view.sides.columns),
      "  ",
      visible && !visible[i] ? t("look.hiddenByMask") : numberElement(values[i], format(values[i])),
    );
  }
}
