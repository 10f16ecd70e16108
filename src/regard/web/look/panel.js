// A figure with a caption and the same numbers as a table, for reading them and for screen readers.

import { make, setAttribute, setText } from "../dom.js";
import { t } from "../texts/texts.js";

export class Panel {
  /**
   * @param {string} name for the CSS class
   * @param {...Element} body
   */
  constructor(name, ...body) {
    this.caption = make("figcaption");
    this.summary = make("summary");
    this.tableBox = make("div", { class: "table-box", tabindex: 0 });
    this.details = make("details", { class: "as-table", ontoggle: () => this.#fill() }, this.summary, this.tableBox);
    this.element = make("figure", { class: `panel panel-${name}` }, this.caption, ...body, this.details);
  }

  /**
   * @param {string} caption
   * @param {(() => Element) | null} [asTable] makes the table when it is opened
   */
  update(caption, asTable = null) {
    setText(this.caption, caption);
    setText(this.summary, t("look.asTable"));
    setAttribute(this.tableBox, "aria-label", caption);
    this.asTable = asTable;
    this.details.hidden = asTable === null;
    this.#fill();
  }

  #fill() {
    if (this.details.open && this.asTable) this.tableBox.replaceChildren(this.asTable());
  }
}
