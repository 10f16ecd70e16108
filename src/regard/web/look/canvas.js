// Canvases that are sharp on every screen and follow the page's colours.

import { make } from "../dom.js";

export const NARROW_BELOW = 860; // px; narrower than this, a figure is above the text, not beside it

/** @type {Set<Canvas | Pixels>} */
const painted = new Set();
let watching = false;

function repaintAll() {
  for (const canvas of painted) {
    if (canvas.element.isConnected) canvas.paint();
    else painted.delete(canvas);
  }
}

/** The page's or the system's theme may change at any time. */
function watch() {
  if (watching) return;
  watching = true;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaintAll);
  new MutationObserver(repaintAll).observe(document.documentElement, {
    attributes: true,
    attributeFilter: ["data-theme"],
  });
}

/**
 * A colour of colours.css as [r, g, b].
 * @param {Element} element
 * @param {string} name
 */
export function colourOf(element, name) {
  const text = getComputedStyle(element).getPropertyValue(`--${name}`).trim();
  const full = text.length === 4 ? [...text.slice(1)].map((digit) => digit + digit).join("") : text.slice(1);
  return [0, 2, 4].map((i) => parseInt(full.slice(i, i + 2), 16) || 0);
}

/**
 * @param {number[]} colour
 * @param {number} alpha
 */
export function rgba([r, g, b], alpha) {
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

/**
 * Draws on a canvas; `colour(name)` is a colour of colours.css.
 * @callback Drawing
 * @param {CanvasRenderingContext2D} pen
 * @param {number} width
 * @param {number} height
 * @param {(name: string) => number[]} colour
 */

/** A canvas with a size in CSS pixels and a function that draws on it. */
export class Canvas {
  /**
   * @param {string} name CSS class
   * @param {Drawing} drawing
   */
  constructor(name, drawing) {
    this.element = make("canvas", { class: name, "aria-hidden": "true" });
    this.drawing = drawing;
    this.width = 0;
    this.height = 0;
    watch();
  }

  /**
   * @param {number} width
   * @param {number} height
   */
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
    const ratio = window.devicePixelRatio || 1;
    this.element.width = Math.round(this.width * ratio);
    this.element.height = Math.round(this.height * ratio);
    const pen = this.element.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawing(pen, this.width, this.height, (name) => colourOf(this.element, name));
  }
}

/** One pixel per number, scaled up by CSS: cheap enough for a map of every head. */
export class Pixels {
  /** @param {string} name CSS class */
  constructor(name) {
    this.element = make("canvas", { class: name, "aria-hidden": "true" });
    /** @type {Float32Array | null} */
    this.values = null;
    this.nColumns = 0;
    watch();
  }

  /**
   * @param {Float32Array} values from 0 to 1, row-major
   * @param {number} nColumns
   */
  show(values, nColumns) {
    this.values = values;
    this.nColumns = nColumns;
    this.paint();
  }

  paint() {
    if (!this.values || !this.element.isConnected) return;
    painted.add(this);
    const [r, g, b] = colourOf(this.element, "attention");
    const nRows = this.values.length / this.nColumns;
    this.element.width = this.nColumns;
    this.element.height = nRows;
    const image = new ImageData(this.nColumns, nRows);
    this.values.forEach((value, i) => image.data.set([r, g, b, Math.round(255 * Math.min(1, value))], 4 * i));
    this.element.getContext("2d").putImageData(image, 0, 0);
  }
}

/**
 * Calls `fit` with the width of the element whenever it changes.
 * @param {Element} element
 * @param {(width: number) => void} fit
 */
export function onWidth(element, fit) {
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width === last || width === 0) return;
    last = width;
    fit(width);
  }).observe(element);
}
