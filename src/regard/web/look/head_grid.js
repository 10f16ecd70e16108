// A grid of small attention maps: one per head, one row per layer. Used to choose a head, or to switch it off under "Try it".

import { make, setAttribute } from "../dom.js";
import { language, t } from "../texts/texts.js";
import { Pixels } from "./canvas.js";
import { headKey } from "./head_key.js";
import { ATTENTION_KINDS, LookData } from "./look_data.js";

/** @import { Head } from "./head_key.js" */

/**
 * @typedef {object} HeadGridOptions
 * @property {any} look
 * @property {LookData} [data] the same, decoded
 * @property {"words" | "pieces"} [level]
 * @property {Head | null} [selected]
 * @property {Set<string> | null} [off] keys of heads that are off; by default those of the look
 * @property {string} [switched] what the switch of the step changes in the softmax
 * @property {Map<string, number> | null} [importance] head → 0 … 1, drawn as a bar
 * @property {string[]} [attentions] the kinds of attention to show
 * @property {(head: Head) => void} [onPick]
 */

export class HeadGrid {
  #cells = new Map();
  #built = null;

  /**
   * @param {HTMLElement} element
   * @param {HeadGridOptions} options
   */
  constructor(element, options) {
    this.element = element;
    /** @type {any} */
    this.options = {
      level: "words",
      selected: null,
      off: null,
      switched: "",
      importance: null,
      attentions: ATTENTION_KINDS,
      onPick: () => {},
    };
    element.classList.add("head-grid");
    element.addEventListener("keydown", (event) => this.#key(event));
    this.update(options);
  }

  /** @param {Partial<HeadGridOptions>} options */
  update(options) {
    const before = this.options;
    /** @type {any} */
    this.options = { ...before, ...options };
    const { look, level, switched, attentions } = this.options;
    if (look !== before.look || !this.data) this.data = options.data ?? new LookData(look);
    const shape =
      `${this.data.model.n_encoder_layers}.${this.data.model.n_decoder_layers}.${this.data.model.n_heads}.${language()}.${
        attentions.map((/** @type {string} */ kind) => this.#nameOf(kind))
      }`;
    const isNew = shape !== this.#built;
    if (isNew) this.#build();
    this.#built = shape;
    if (isNew || look !== before.look || level !== before.level || switched !== before.switched) this.#paint();
    this.#mark();
  }

  #build() {
    this.#cells.clear();
    this.element.style.setProperty("--n-heads", this.data.model.n_heads);
    this.element.replaceChildren(...this.options.attentions.map((kind) => this.#group(kind)));
  }

  #nameOf(/** @type {string} */ kind) {
    return this.data.nameOf(kind, this.options);
  }

  #group(kind) {
    const layers = [];
    for (let layer = 0; layer < this.data.nLayers(kind); layer += 1) {
      const heads = [];
      for (let head = 0; head < this.data.model.n_heads; head += 1) {
        heads.push(this.#cell({ attention: kind, layer, head }));
      }
      layers.push(
        make(
          "div",
          { class: "head-layer" },
          make("span", { class: "head-layer-number", "aria-hidden": "true" }, String(layer + 1)),
          heads,
        ),
      );
    }
    return make(
      "div",
      { class: "head-group", role: "group", "aria-label": t(`look.attentionNames.${this.#nameOf(kind)}`) },
      make("p", { class: "head-group-name" }, t(`look.attentionNames.${this.#nameOf(kind)}`)),
      layers,
    );
  }

  #cell(head) {
    const pixels = new Pixels("head-map");
    const bar = make("span", { class: "head-bar", "aria-hidden": "true" });
    const name = t("look.headName", { ...head, attention: this.#nameOf(head.attention) });
    const button = make(
      "button",
      {
        type: "button",
        class: "head-cell",
        "data-head": headKey(head),
        title: name,
        tabindex: -1,
        onclick: () => this.options.onPick(head),
      },
      pixels.element,
      bar,
    );
    this.#cells.set(headKey(head), { head, pixels, button, bar, name });
    return button;
  }

  #paint() {
    for (const { head, pixels } of this.#cells.values()) {
      pixels.show(
        this.data.weights({ ...head, switched: this.options.switched }, this.options.level),
        this.data.columns(head.attention, this.options.level).length,
      );
    }
    // before it is part of the page, it has no colours to paint with
    if (!this.element.isConnected) requestAnimationFrame(() => this.#cells.forEach(({ pixels }) => pixels.paint()));
  }

  #mark() {
    const { selected, off, importance } = this.options;
    const focusable = selected && this.#cells.has(headKey(selected))
      ? headKey(selected)
      : this.#cells.keys().next().value;
    for (const [key, { button, bar, name }] of this.#cells) {
      const isOff = (off ?? this.data.off).has(key);
      setAttribute(button, "aria-label", isOff ? `${name}, ${t("look.off")}` : name);
      setAttribute(button, "aria-pressed", selected && headKey(selected) === key ? "true" : "false");
      setAttribute(button, "data-off", isOff);
      button.tabIndex = key === focusable ? 0 : -1;
      bar.hidden = !importance?.has(key);
      if (importance?.has(key)) bar.style.width = `${Math.round(100 * importance.get(key))}%`;
    }
  }

  /** Arrow keys move as the grid is laid out: heads across, layers (and groups) down. */
  #key(event) {
    const here = [...this.#cells.values()].findIndex(({ button }) => button === event.target);
    const across = this.data.model.n_heads;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[event.key];
    if (here < 0 || !step) return;
    event.preventDefault();
    event.stopPropagation();
    const next = [...this.#cells.values()][here + step];
    if (!next) return;
    next.button.tabIndex = 0;
    next.button.focus();
  }
}
