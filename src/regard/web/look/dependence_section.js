// What each word depends on, below "Look inside". It is measured when the section is open, because it takes as long as
// several translations.

import { make, setText } from "../dom.js";
import { change, onChange, state } from "../state.js";
import { onLanguage, t } from "../texts/texts.js";
import { loadModule } from "./load.js";
import { fetchLook } from "./look_request.js";

export class DependenceSection {
  #summary = make("summary");
  #note = make("p", { class: "note", role: "status" });
  #box = make("div");
  #body = null; // of the request for the look that is shown
  #measured = null; // the body that the panel shows
  #panel = null;
  #controller = null;

  constructor() {
    this.element = make(
      "details",
      { class: "depends-section", hidden: true, ontoggle: () => change({ depends: this.element.open }) },
      this.#summary,
      this.#note,
      this.#box,
    );
    this.#write();
    onChange(["depends"], () => this.#load());
    onLanguage(() => this.#write());
  }

  #write() {
    setText(this.#summary, t("look.depends.title"));
  }

  /** @param {Record<string, any> | null} body of the request for the look above; null hides the section */
  update(body) {
    this.element.hidden = body === null;
    this.#body = body;
    this.#load();
  }

  async #load() {
    this.#controller?.abort();
    this.element.open = state.depends;
    if (!this.#body || !state.depends || this.#measured === this.#body) return;
    const controller = (this.#controller = new AbortController());
    setText(this.#note, t("look.waiting"));
    try {
      const body = this.#body;
      const look = await fetchLook({ ...body, dependence: true }, controller.signal);
      const { DependencePanel } = await loadModule("dependence_panel.js");
      if (controller.signal.aborted) return;
      if (this.#panel) this.#panel.setLook(look);
      else this.#panel = new DependencePanel(this.#box, { look });
      this.#measured = body;
      setText(this.#note, "");
    } catch (error) {
      if (!controller.signal.aborted) {
        setText(this.#note, `${t("look.failed")} ${t("refused", error.code, error.message)}`);
      }
    }
  }
}
