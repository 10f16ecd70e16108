// The wall: one small map a head, a row a layer. To choose a head here, or to silence it under "Try it".

import { Pixels } from "./canvas.js";
import { make, put } from "./dom.js";
import { headKey, Seen, USES } from "./seen.js";
import { textsOf } from "./texts.js";

/** options: look, language, level, selected, off (else those off in the look), colours, onPick; `attentions` to show only some. */
export class Wall {
  #squares = new Map();
  #built = null;

  constructor(element, options) {
    this.element = element;
    this.options = { level: "words", selected: null, off: null, colours: null, attentions: USES, onPick: () => {} };
    element.classList.add("wall");
    element.addEventListener("keydown", (event) => this.#key(event));
    this.update(options);
  }

  update(options) {
    const before = this.options;
    this.options = { ...before, ...options };
    const { look, language, level, attentions } = this.options;
    if (look !== before.look || !this.seen) this.seen = options.seen ?? new Seen(look);
    const shape =
      `${this.seen.model.n_encoder_layers}.${this.seen.model.n_decoder_layers}.${this.seen.model.n_heads}.${language}.${attentions}`;
    const isNew = shape !== this.#built;
    if (isNew) this.#build();
    this.#built = shape;
    if (isNew || look !== before.look || level !== before.level) this.#paint();
    this.#mark();
  }

  #build() {
    this.#squares.clear();
    this.element.style.setProperty("--wall-heads", this.seen.model.n_heads);
    this.element.replaceChildren(...this.options.attentions.map((use) => this.#group(use)));
  }

  #group(use) {
    const t = textsOf(this.options.language);
    const layers = [];
    for (let layer = 0; layer < this.seen.nLayers(use); layer += 1) {
      const heads = [];
      for (let head = 0; head < this.seen.model.n_heads; head += 1) {
        heads.push(this.#square({ attention: use, layer, head }, t));
      }
      layers.push(
        make(
          "div",
          { class: "wall-layer" },
          make("span", { class: "wall-number", "aria-hidden": "true" }, String(layer + 1)),
          heads,
        ),
      );
    }
    return make(
      "div",
      { class: "wall-group", role: "group", "aria-label": t.uses[use] },
      make("p", { class: "wall-name" }, t.uses[use]),
      layers,
    );
  }

  #square(where, t) {
    const pixels = new Pixels("wall-map");
    const bar = make("span", { class: "wall-bar", "aria-hidden": "true" });
    const name = t.headName(where);
    const button = make(
      "button",
      {
        type: "button",
        class: "wall-head",
        "data-head": headKey(where),
        title: name,
        tabindex: -1,
        onclick: () => this.options.onPick(where),
      },
      pixels.element,
      bar,
    );
    this.#squares.set(headKey(where), { where, pixels, button, bar, name });
    return button;
  }

  #paint() {
    for (const { where, pixels } of this.#squares.values()) {
      pixels.show(
        this.seen.weights(where, this.options.level),
        this.seen.columns(where.attention, this.options.level).length,
      );
    }
    // a wall that is not on the page yet has no colours to paint with
    if (!this.element.isConnected) requestAnimationFrame(() => this.#squares.forEach(({ pixels }) => pixels.paint()));
  }

  #mark() {
    const { selected, off, colours, language } = this.options;
    const t = textsOf(language);
    const chosen = selected && this.#squares.has(headKey(selected))
      ? headKey(selected)
      : this.#squares.keys().next().value;
    for (const [key, { button, bar, name }] of this.#squares) {
      const silent = (off ?? this.seen.off).has(key);
      put(button, "aria-label", silent ? `${name}, ${t.off}` : name);
      put(button, "aria-pressed", selected && headKey(selected) === key ? "true" : "false");
      put(button, "data-off", silent);
      button.tabIndex = key === chosen ? 0 : -1;
      bar.hidden = !colours?.has(key);
      if (colours?.has(key)) bar.style.width = `${Math.round(100 * colours.get(key))}%`;
    }
  }

  /** Arrow keys walk over the squares as they lie: heads across, layers (and groups) down. */
  #key(event) {
    const here = [...this.#squares.values()].findIndex(({ button }) => button === event.target);
    const across = this.seen.model.n_heads;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[event.key];
    if (here < 0 || !step) return;
    event.preventDefault();
    event.stopPropagation();
    const next = [...this.#squares.values()][here + step];
    if (!next) return;
    next.button.tabIndex = 0;
    next.button.focus();
  }
}
