// The walk: where the reader is among the stops, with one step back and one on.

import { make, put, write } from "./dom.js";
import { STOPS } from "./place.js";

export class Walk {
  constructor({ go, step }) {
    this.back = make("button", { type: "button", class: "walk-step", "data-walk": "back", onclick: () => step(-1) });
    this.on = make("button", { type: "button", class: "walk-step", "data-walk": "on", onclick: () => step(1) });
    this.dots = STOPS.map((stop, i) =>
      make("button", { type: "button", class: "walk-stop", "data-stop": stop, onclick: () => go({ stop: i + 1 }) })
    );
    this.list = make("ol", { class: "walk-stops" }, this.dots.map((dot) => make("li", {}, dot)));
    this.element = make("nav", { class: "walk" }, this.back, this.list, this.on);
  }

  update({ place, t }, titles) {
    put(this.element, "aria-label", t.walk);
    write(this.back, "←");
    write(this.on, "→");
    put(this.back, "aria-label", t.back);
    put(this.on, "aria-label", t.on);
    this.back.disabled = place.stop === 1;
    this.on.disabled = place.stop === STOPS.length;
    this.dots.forEach((dot, i) => {
      put(dot, "aria-label", `${i + 1}. ${titles[i]}`);
      put(dot, "title", `${i + 1}. ${titles[i]}`);
      put(dot, "aria-current", i + 1 === place.stop ? "step" : null);
      put(dot, "data-passed", i + 1 < place.stop);
      write(dot, String(i + 1));
    });
  }
}
