// Canvases that stay sharp on every screen and follow the page's colours.

import { make } from "./dom.js";

const painted = new Set();
let watching = false;

function repaintAll() {
  for (const canvas of painted) {
    if (canvas.element.isConnected) canvas.paint();
    else painted.delete(canvas);
  }
}

/** Light and dark are the page's choice or the system's; either may change under our feet. */
function watch() {
  if (watching) return;
  watching = true;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintAll);
  new MutationObserver(repaintAll).observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["data-theme"],
  });
}

/** A colour of colours.css as [r, g, b]. */
export function colourOf(element, name) {
  const text = getComputedStyle(element).getPropertyValue(`--${name}`).trim();
  const full = text.length === 4 ? [...text.slice(1)].map((digit) => digit + digit).join("") : text.slice(1);
  return [0, 2, 4].map((i) => parseInt(full.slice(i, i + 2), 16) || 0);
}

export function rgba([r, g, b], alpha) {
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

/** A canvas of a size in CSS pixels with a function that draws on it: draw(pen, width, height, colour). */
export class Canvas {
  constructor(name, drawing) {
    this.element = make("canvas", { class: name, "aria-hidden": "true" });
    this.drawing = drawing;
    this.width = 0;
    this.height = 0;
    watch();
  }

  resize(width, height) {
    this.width = Math.max(1, Math.round(width));
    this.height = Math.max(1, Math.round(height));
    this.element.style.width = `${this.width}px`;
    this.element.style.height = `${this.height}px`;
    this.paint();
  }

  paint() {
    if (!this.width) return;
    painted.add(this);
    const sharp = window.devicePixelRatio || 1;
    this.element.width = Math.round(this.width * sharp);
    this.element.height = Math.round(this.height * sharp);
    const pen = this.element.getContext("2d");
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    this.drawing(pen, this.width, this.height, (name) => colourOf(this.element, name));
  }
}

/** One pixel a number, scaled up by CSS: for very many small maps. */
export class Pixels {
  constructor(name) {
    this.element = make("canvas", { class: name, "aria-hidden": "true" });
    this.values = null;
    watch();
  }

  show(values, nColumns, colour = "attention") {
    Object.assign(this, { values, nColumns, colour });
    this.paint();
  }

  paint() {
    if (!this.values || !this.element.isConnected) return;
    painted.add(this);
    const [r, g, b] = colourOf(this.element, this.colour);
    const nRows = this.values.length / this.nColumns;
    this.element.width = this.nColumns;
    this.element.height = nRows;
    const image = new ImageData(this.nColumns, nRows);
    this.values.forEach((value, i) => image.data.set([r, g, b, Math.round(255 * Math.min(1, value))], 4 * i));
    this.element.getContext("2d").putImageData(image, 0, 0);
  }
}

/** Calls `fit(width)` when the element gets a width, and whenever it changes. */
export function onWidth(element, fit) {
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width === last || width === 0) return;
    last = width;
    fit(width);
  }).observe(element);
}
