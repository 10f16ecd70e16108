// The other translations that the search has found, any of which can be taken over.

import { make } from "./dom.js";
import { onChange, state } from "./state.js";
import { number, t } from "./texts.js";

export class Alternatives {
  #element;
  #onTake;
  #wish = null; // what the reader said last: open or not; null as long as nothing was said
  #lines = [];

  /** `onTake(line, place)`: 0 is the best translation, 1 the first alternative. */
  constructor(element, onTake) {
    this.#element = element;
    this.#onTake = onTake;
    onChange(["view"], () => this.#open());
  }

  /** There is room for them where translating is all that the page does. */
  get open() {
    return this.#wish ?? state.view === "translate";
  }

  toggle() {
    this.#wish = !this.open;
    this.#open();
  }

  /** Show what can be chosen for each line, and what is. */
  show(lines, chosen) {
    this.#lines = lines;
    const focused = this.#element.contains(document.activeElement) ? document.activeElement.dataset.place : null;
    const several = lines.filter((line) => line?.alternatives?.length).length > 1;
    const lists = lines.flatMap((
      line,
      place,
    ) => (line?.alternatives?.length ? [this.#list(line, place, chosen[place]?.place ?? 0, several)] : []));
    this.#element.replaceChildren(...lists);
    if (focused) this.#element.querySelector(`[data-place="${focused}"]`)?.focus();
    this.#open();
  }

  #list(line, place, chosen, several) {
    const rows = [line, ...line.alternatives].map((one, row) =>
      make(
        "li",
        {},
        make(
          "button",
          {
            "aria-pressed": String(row === chosen),
            "data-place": `${place}-${row}`,
            onclick: () => this.#onTake(place, row),
          },
          make("span", { class: "score", title: t("score") }, number(one.score, 2)),
          make("span", { class: "text", dir: "auto" }, one.text),
        ),
      )
    );
    const label = several ? t("alternatives.of", place + 1) : t("alternatives.title");
    return make("div", {}, make("h3", {}, label), make("ol", { "aria-label": label }, ...rows));
  }

  #open() {
    this.#element.hidden = !this.open || !this.#lines.some((line) => line?.alternatives?.length);
    document.querySelector("[aria-controls=alternatives]")?.setAttribute("aria-expanded", String(this.open));
  }
}
