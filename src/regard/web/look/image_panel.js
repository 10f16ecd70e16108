// What a Vision Transformer makes of an image: its patches, the attention rollout over it, the similarity of positions,
// and how far each head looks.

import { make, table } from "../dom.js";
import { formatNumber, percent } from "../format.js";
import { t } from "../texts/texts.js";
import { Canvas, rgba } from "./canvas.js";
import { decodeArray } from "./look_data.js";

const SIDE = 224; // CSS pixels of the longer side of an image
const FAINT = 0.35;
const SHOWN_PATCHES = 5; // in the text equivalent

/** @typedef {{ numbers: Float32Array, shape: number[] }} Decoded */

/** The figures and the table of a look at an image. */
export function imagePanels(/** @type {any} */ look) {
  const { rows, columns, patch, ...arrays } = look.image;
  const [pixels, rollout, similarity, distance] = [
    arrays.pixels,
    arrays.rollout,
    arrays.position_similarity,
    arrays.attention_distance,
  ].map((array) => /** @type {Decoded} */ (decodeArray(array)));
  const image = pixelCanvas(pixels);
  const grid = { rows, columns };
  return [
    make("h2", {}, t("look.image.title")),
    make(
      "div",
      { class: "image-figures" },
      figure(t("look.image.patches", rows, columns, patch), image, drawPatches(image, grid)),
      figure(rolloutText(rollout, grid), image, drawRollout(image, rollout, grid)),
      figure(t("look.image.positions"), image, drawSimilarity(similarity, grid)),
    ),
    make("div", { class: "table-scroll", tabindex: 0 }, distanceTable(distance)),
  ];
}

/**
 * @param {string} caption
 * @param {HTMLCanvasElement} image whose proportions the figure has
 * @param {import("./canvas.js").Drawing} drawing
 */
function figure(caption, image, drawing) {
  const scale = SIDE / Math.max(image.width, image.height);
  const canvas = new Canvas("image-figure", drawing);
  const element = make("figure", { class: "panel" }, canvas.element, make("figcaption", {}, caption));
  // a canvas that is not in the page has no colours yet
  requestAnimationFrame(() => canvas.resize(image.width * scale, image.height * scale));
  return element;
}

/** The pixels of the image on a canvas of their own. */
function pixelCanvas(/** @type {Decoded} */ { numbers, shape: [height, width, channels] }) {
  const canvas = make("canvas", { width, height });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const data = pen.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) data.data[4 * i + c] = numbers[i * channels + (channels > 1 ? c : 0)];
    data.data[4 * i + 3] = 255;
  }
  pen.putImageData(data, 0, 0);
  return canvas;
}

/** @returns {import("./canvas.js").Drawing} */
function drawPatches(/** @type {HTMLCanvasElement} */ image, { rows, columns }) {
  return (pen, width, height, colour) => {
    pen.imageSmoothingEnabled = false;
    pen.drawImage(image, 0, 0, width, height);
    pen.strokeStyle = rgba(colour("attention"), 0.8);
    pen.beginPath();
    for (let i = 1; i < rows; i++) drawnLine(pen, 0, (i * height) / rows, width, (i * height) / rows);
    for (let i = 1; i < columns; i++) drawnLine(pen, (i * width) / columns, 0, (i * width) / columns, height);
    pen.stroke();
  };
}

/** @returns {import("./canvas.js").Drawing} */
function drawRollout(
  /** @type {HTMLCanvasElement} */ image,
  /** @type {Decoded} */ { numbers },
  { rows, columns },
) {
  const max = Math.max(...numbers);
  return (pen, width, height, colour) => {
    pen.imageSmoothingEnabled = false;
    pen.fillStyle = rgba(colour("ground"), 1);
    pen.fillRect(0, 0, width, height);
    pen.globalAlpha = FAINT;
    pen.drawImage(image, 0, 0, width, height);
    pen.globalAlpha = 1;
    const [w, h] = [width / columns, height / rows];
    numbers.forEach((share, i) => {
      pen.fillStyle = rgba(colour("attention"), (0.85 * share) / max);
      pen.fillRect((i % columns) * w, Math.floor(i / columns) * h, w, h);
    });
  };
}

/**
 * A small map for each patch, at its place.
 * @returns {import("./canvas.js").Drawing}
 */
function drawSimilarity(/** @type {Decoded} */ { numbers }, { rows, columns }) {
  const n = rows * columns;
  return (pen, width, height, colour) => {
    const [w, h] = [width / (columns * (columns + 1)), height / (rows * (rows + 1))];
    numbers.forEach((cosine, i) => {
      const [from, to] = [Math.floor(i / n), i % n];
      const column = (from % columns) * (columns + 1) + (to % columns);
      const row = Math.floor(from / columns) * (rows + 1) + Math.floor(to / columns);
      pen.fillStyle = rgba(colour(cosine > 0 ? "attention" : "target"), Math.abs(cosine));
      pen.fillRect(column * w, row * h, w + 0.3, h + 0.3);
    });
  };
}

function drawnLine(/** @type {CanvasRenderingContext2D} */ pen, x, y, toX, toY) {
  pen.moveTo(x, y);
  pen.lineTo(toX, toY);
}

/** The patches that matter most, in words. */
function rolloutText(/** @type {Decoded} */ { numbers }, { columns }) {
  const order = Array.from(numbers.keys()).sort((a, b) => numbers[b] - numbers[a]).slice(0, SHOWN_PATCHES);
  const places = order.map((i) => `${Math.floor(i / columns) + 1},${(i % columns) + 1} ${percent(numbers[i])}`);
  return t("look.image.rollout", places.join(" · "));
}

function distanceTable(/** @type {Decoded} */ { numbers, shape: [nLayers, nHeads] }) {
  const heads = Array.from({ length: nHeads }, (_, i) => t("look.recorded.head", i + 1));
  const rows = Array.from({ length: nLayers }, (_, layer) => [
    t("look.image.layer", layer + 1),
    ...Array.from(numbers.slice(layer * nHeads, (layer + 1) * nHeads), (value) => formatNumber(value, 3)),
  ]);
  return table(t("look.image.distance"), [t("look.image.distance"), ...heads], rows);
}
