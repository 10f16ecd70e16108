// The other translations that the search found; any of them can be selected.

import { make } from "../dom.js";
import { decimal } from "../format.js";
import { onChange, state } from "../state.js";
import { t } from "../texts/texts.js";

export class Alternatives {
  #element;
  #onSelect;
  #userChoice = null; // open or not; null until the user has chosen
  #lines = [];

  /**
   * @param {HTMLElement} element
   * @param {(line: number, rank: number) => void} onSelect rank 0 is the best translation, 1 the first alternative
   */
  constructor(element, onSelect) {
    this.#element = element;
    this.#onSelect = onSelect;
    onChange(["view"], () => this.#showOpen());
  }

  /** By default open in "Translate" only, where there is space. */
  get open() {
    return this.#userChoice ?? state.view === "translate";
  }

  toggle() {
    this.#userChoice = !this.open;
    this.#showOpen();
  }

  /**
   * Shows the translations of each line, and which is selected.
   * @param {any[]} lines
   * @param {Record<number, { rank: number }>} chosen
   */
  show(lines, chosen) {
    this.#lines = lines;
    const active = /** @type {HTMLElement} */ (document.activeElement);
    const focused = this.#element.contains(active) ? active.dataset.option : null;
    const several = lines.filter(hasAlternatives).length > 1;
    const lists = lines.flatMap((line, index) =>
      hasAlternatives(line) ? [this.#list(line, index, chosen[index]?.rank ?? 0, several)] : []
    );
    this.#element.replaceChildren(...lists);
    if (focused) /** @type {HTMLElement} */ (this.#element.querySelector(`[data-option="${focused}"]`))?.focus();
    this.#showOpen();
  }

  #list(line, index, selected, several) {
    const rows = [line, ...line.alternatives].map(({ score, text }, rank) => {
      const attributes = {
        "aria-pressed": String(rank === selected),
        "data-option": `${index}-${rank}`,
        onclick: () => this.#onSelect(index, rank),
      };
      const scoreElement = make("span", { class: "score", title: t("score") }, decimal(score, 2));
      return make(
        "li",
        {},
        make("button", attributes, scoreElement, make("span", { class: "text", dir: "auto" }, text)),
      );
    });
    const label = several ? t("alternatives.of", index + 1) : t("alternatives.title");
    return make("div", {}, make("h2", {}, label), make("ol", { "aria-label": label }, ...rows));
  }

  #showOpen() {
    this.#element.hidden = !this.open || !this.#lines.some(hasAlternatives);
    document.querySelector("[aria-controls=alternatives]")?.setAttribute("aria-expanded", String(this.open));
  }
}

const hasAlternatives = (line) => Boolean(line?.alternatives?.length);
