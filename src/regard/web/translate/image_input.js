// The input of a model that reads images: draw one, drop one, or choose a file. The text of the page is then the image,
// as a data URL.

import { byId, make, setAttribute } from "../dom.js";
import { change, currentModel, onChange, state } from "../state.js";
import { onLanguage, t } from "../texts/texts.js";

/** @typedef {{ height: number, width: number, channels: number, is_dark: boolean }} ImageSize */

const SIDE = 280; // pixels of the pad
const STROKE = 0.08; // of its side
const INK_SHARE = 5 / 7; // of the image, along its longer side: a drawing is moved to the middle
const MAX_FILE = 150_000; // bytes; larger files, and other formats, are scaled down
const MAX_SIDE = 512;
const DRAWING_PAUSE = 120; // milliseconds
const PREFIX = "data:image/";

/** Whether the text of the page is an image. */
export const isImage = (/** @type {string} */ text) => text.startsWith(PREFIX);

export class ImageInput {
  #canvas = make("canvas", { class: "pad", width: SIDE, height: SIDE, role: "img" });
  #file = make("input", { type: "file", accept: "image/png,image/jpeg", id: "image-file", class: "visually-hidden" });
  #choose = make("label", { for: "image-file", class: "textlink" });
  #hint = make("p", { class: "note" });
  #isDrawing = false;
  #isBlank = true; // nothing was drawn since the last image
  #shown = ""; // the text that the pad shows
  #timer = 0;

  constructor() {
    this.element = make(
      "div",
      { class: "image-input", hidden: true },
      this.#canvas,
      make("div", {}, this.#hint, this.#file, this.#choose),
    );
    byId("sentence").closest(".pane").before(this.element);
    this.#canvas.addEventListener("pointerdown", (event) => this.#start(event));
    this.#canvas.addEventListener("pointermove", (event) => this.#isDrawing && this.#draw(event));
    for (const name of ["pointerup", "pointercancel"]) this.#canvas.addEventListener(name, () => this.#end());
    this.#file.addEventListener("change", () => this.#read(this.#file.files?.[0]));
    for (const name of ["dragenter", "dragover"]) {
      this.element.addEventListener(name, (event) => event.preventDefault());
    }
    this.element.addEventListener("drop", (event) => {
      event.preventDefault();
      this.#read(event.dataTransfer?.files[0]);
    });
    onChange(["models", "model", "text"], () => this.#update());
    onLanguage(() => this.#label());
    this.#label();
    this.#update();
  }

  #label() {
    this.#canvas.setAttribute("aria-label", t("image.pad"));
    this.#choose.textContent = t("image.choose");
    this.#hint.textContent = t("image.hint");
  }

  get #size() {
    return /** @type {ImageSize | null} */ (currentModel()?.image ?? null);
  }

  /** Shows the pad for a model of images, and the image of the address. */
  #update() {
    const size = this.#size;
    this.element.hidden = !size;
    setAttribute(document.body, "data-input", size ? "image" : null);
    if (!size) return;
    if (state.text && !isImage(state.text)) return change({ text: "" });
    if (state.text === this.#shown) return;
    this.#shown = state.text;
    this.#isBlank = true;
    if (state.text) this.#show(state.text);
    else this.#clear();
  }

  get #pen() {
    return /** @type {CanvasRenderingContext2D} */ (this.#canvas.getContext("2d", { willReadFrequently: true }));
  }

  #clear() {
    this.#pen.fillStyle = this.#size?.is_dark ? "#000" : "#fff";
    this.#pen.fillRect(0, 0, SIDE, SIDE);
  }

  async #show(/** @type {string} */ text) {
    const image = await decoded(text);
    if (!image || text !== state.text) return;
    this.#clear();
    this.#pen.imageSmoothingEnabled = image.width > SIDE;
    this.#pen.drawImage(image, 0, 0, SIDE, SIDE);
  }

  #start(/** @type {PointerEvent} */ event) {
    event.preventDefault();
    this.#canvas.setPointerCapture(event.pointerId);
    if (this.#isBlank) this.#clear();
    this.#isBlank = false;
    this.#isDrawing = true;
    const pen = this.#pen;
    pen.strokeStyle = this.#size?.is_dark ? "#fff" : "#000";
    pen.lineWidth = STROKE * SIDE;
    pen.lineCap = pen.lineJoin = "round";
    pen.beginPath();
    pen.moveTo(...this.#place(event));
    this.#draw(event);
  }

  #draw(/** @type {PointerEvent} */ event) {
    this.#pen.lineTo(...this.#place(event));
    this.#pen.stroke();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#send(), DRAWING_PAUSE);
  }

  #end() {
    if (!this.#isDrawing) return;
    this.#isDrawing = false;
    clearTimeout(this.#timer);
    this.#send();
  }

  /** @returns {[number, number]} */
  #place(/** @type {PointerEvent} */ event) {
    const { left, top, width, height } = this.#canvas.getBoundingClientRect();
    return [((event.clientX - left) / width) * SIDE, ((event.clientY - top) / height) * SIDE];
  }

  #send() {
    const size = this.#size;
    if (!size) return;
    this.#shown = centred(this.#canvas, size);
    change({ text: this.#shown, chosen: {} });
  }

  async #read(/** @type {File | undefined} */ file) {
    if (!file) return;
    const isSmall = file.size <= MAX_FILE && ["image/png", "image/jpeg"].includes(file.type);
    const text = isSmall ? await dataUrl(file) : await scaledDown(file);
    this.#file.value = "";
    if (text) change({ text, chosen: {} });
    else this.#hint.textContent = t("image.unreadable", file.name);
  }
}

/**
 * The drawing in the middle of an image of the model's size.
 * @param {HTMLCanvasElement} canvas
 * @param {ImageSize} size
 */
function centred(canvas, { width, height, is_dark: isDark }) {
  const { left, top, right, bottom } = inkOf(canvas, isDark);
  const scale = (INK_SHARE * Math.min(width, height)) / Math.max(right - left, bottom - top);
  const image = make("canvas", { width, height });
  const pen = /** @type {CanvasRenderingContext2D} */ (image.getContext("2d"));
  pen.fillStyle = isDark ? "#000" : "#fff";
  pen.fillRect(0, 0, width, height);
  pen.imageSmoothingQuality = "high";
  const [w, h] = [(right - left) * scale, (bottom - top) * scale];
  pen.drawImage(canvas, left, top, right - left, bottom - top, (width - w) / 2, (height - h) / 2, w, h);
  return image.toDataURL("image/png");
}

/**
 * The smallest box around everything that was drawn.
 * @param {HTMLCanvasElement} canvas
 * @param {boolean} isDark
 */
function inkOf(canvas, isDark) {
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const { data } = pen.getImageData(0, 0, SIDE, SIDE);
  const box = { left: SIDE, top: SIDE, right: 0, bottom: 0 };
  for (let i = 0; i < SIDE * SIDE; i++) {
    if (data[4 * i] > 127 !== isDark) continue;
    const [x, y] = [i % SIDE, Math.floor(i / SIDE)];
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x + 1);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y + 1);
  }
  return box.right ? box : { left: 0, top: 0, right: SIDE, bottom: SIDE };
}

/** @returns {Promise<string>} */
function dataUrl(/** @type {Blob} */ file) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result)));
    reader.readAsDataURL(file);
  });
}

/** A JPEG of at most MAX_SIDE pixels; empty if the browser cannot read the file. */
async function scaledDown(/** @type {Blob} */ file) {
  const image = await createImageBitmap(file).catch(() => null);
  if (!image) return "";
  const scale = Math.min(1, MAX_SIDE / Math.max(image.width, image.height));
  const canvas = make("canvas", { width: Math.ceil(image.width * scale), height: Math.ceil(image.height * scale) });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.92);
}

/** The image of a data URL; null if it is none. It is not fetched: the page's policy allows no data URLs. */
function decoded(/** @type {string} */ text) {
  try {
    const bytes = Uint8Array.from(atob(text.slice(text.indexOf(",") + 1)), (char) => char.charCodeAt(0));
    return createImageBitmap(new Blob([bytes])).catch(() => null);
  } catch {
    return Promise.resolve(null);
  }
}
