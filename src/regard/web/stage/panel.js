// A picture with its caption and, for whoever wants numbers or can not see it, the same as a table.

import { make, put, write } from "./dom.js";

export class Panel {
  constructor(name, ...body) {
    this.caption = make("figcaption");
    this.summary = make("summary");
    this.place = make("div", { class: "table-place", tabindex: 0 });
    this.details = make("details", { class: "as-table", ontoggle: () => this.#fill() }, this.summary, this.place);
    this.element = make("figure", { class: `panel panel-${name}` }, this.caption, ...body, this.details);
  }

  /** `asTable()` makes the table when it is first opened. */
  update(caption, t, asTable = null) {
    write(this.caption, caption);
    write(this.summary, t.asTable);
    put(this.place, "aria-label", caption);
    this.asTable = asTable;
    this.details.hidden = asTable === null;
    this.#fill();
  }

  #fill() {
    if (this.details.open && this.asTable) this.place.replaceChildren(this.asTable());
  }
}
