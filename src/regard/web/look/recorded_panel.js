// "Look inside" for a model without attention: its predictions, and what it recorded, position by position.

import { make } from "../dom.js";
import { percent } from "../format.js";
import { t } from "../texts/texts.js";
import { decodeArray } from "./look_data.js";

const BAR_CHARACTERS = "▁▂▃▄▅▆▇█";
const SHOWN_ALTERNATIVES = 4;

export class RecordedPanel {
  place = {};
  #box;

  /**
   * @param {HTMLElement} box
   * @param {{ look: any }} options
   */
  constructor(box, { look }) {
    this.#box = box;
    this.setLook(look);
  }

  /** There is only one place. */
  go() {}

  setLook(/** @type {any} */ look) {
    this.#box.replaceChildren(
      make("h2", {}, t("look.recorded.predictions")),
      make("p", { class: "note" }, t("look.recorded.noAttention", look.model.size)),
      scrollBox(
        plainTable(
          [t("look.recorded.piece"), t("look.recorded.probability"), t("look.recorded.others")],
          look.steps.map(stepRow),
        ),
      ),
      make("h2", {}, t("look.recorded.sites")),
      make("p", { class: "note" }, t("look.recorded.norms")),
      scrollBox(
        plainTable(
          [t("look.recorded.where"), t("look.recorded.kind"), t("look.recorded.size"), ""],
          look.sites.map(siteRow(look)),
        ),
      ),
    );
  }
}

/** A wide table scrolls in its own box, also by keyboard. */
const scrollBox = (/** @type {HTMLElement} */ content) => make("div", { class: "scroll", tabindex: 0 }, content);

function stepRow(/** @type {any} */ { chosen, top }) {
  const others = top.filter((other) => other.id !== chosen.id).slice(0, SHOWN_ALTERNATIVES);
  return [
    chosen.text,
    percent(chosen.probability),
    others.map((o) => `${o.text} ${percent(o.probability)}`).join(", "),
  ];
}

const siteRow = (/** @type {any} */ look) => (/** @type {any} */ { path, kind, axes, shape }) => {
  const size = axes.map((axis, i) => `${axis} ${shape[i]}`).join(" × ");
  const vectors = axes.length === 2 && axes[1] === "unit" ? decodeArray(look.arrays[path]) : null;
  return [path, kind, size, vectors ? normBars(vectors) : ""];
};

/** The norm of the vector at each position, as bars. */
function normBars(/** @type {import("./look_data.js").Tensor} */ vectors) {
  const lengths = Array.from({ length: vectors.shape[0] }, (_, i) => Math.hypot(...vectors.at(i)));
  const largest = Math.max(...lengths) || 1;
  return lengths.map((length) => BAR_CHARACTERS[Math.round((length / largest) * (BAR_CHARACTERS.length - 1))]).join("");
}

/**
 * @param {string[]} names
 * @param {string[][]} rows
 */
function plainTable(names, rows) {
  const row = (/** @type {"th" | "td"} */ tag) => (/** @type {string[]} */ cells) =>
    make("tr", {}, cells.map((cell) => make(tag, {}, cell)));
  return make(
    "table",
    { class: "recorded" },
    make("thead", {}, row("th")(names)),
    make("tbody", {}, rows.map(row("td"))),
  );
}
