// What the mask and ÷ √d_k are for: three small models, trained alike except for one of them, and the gradient that is
// left on the reader's own sentence.

import { make, numberElement, table } from "../dom.js";
import { formatNumber, percent } from "../format.js";
import { ATTENTION_KINDS, LookData } from "../look/look_data.js";
import { gradientLeft, mean, softmax } from "../look/math.js";
import { language, t } from "../texts/texts.js";
import { TRAINED } from "./trained_models.js";

/**
 * Explains what is switched off, the mask or ÷ √d_k; nothing if neither is.
 * @param {any} look
 * @returns {HTMLElement[]}
 */
export function trainedWithout(look) {
  const { mask, scale } = look.interventions;
  return [...(scale ? [] : [explanation("scale", gradientText(look))]), ...(mask ? [] : [explanation("mask", "")])];
}

/** A model trained without a part, beside the same with everything. */
function explanation(/** @type {"mask" | "scale"} */ part, /** @type {any} */ text) {
  const models = [TRAINED.paper, TRAINED[part]];
  const caption = t("try.trained.caption", TRAINED.validation_sentences);
  const rows = TRAINED.paper.rows.map(({ step }, i) => [
    t("training.step", step),
    ...models.map(({ rows }) => numberElement(rows[i].loss, formatNumber(rows[i].loss))),
  ]);
  const last = models.map(({ rows }) => percent(rows.at(-1)?.accuracy ?? 0));
  rows.push([t("try.trained.accuracy"), ...last]);
  rows.push([t("try.trained.exact"), ...models.map(({ exact }) => `${Math.round(100 * exact)}%`)]);
  return make(
    "section",
    { class: "trained-without", lang: language() },
    make("h2", {}, t(`try.trained.${part}`)),
    make("p", {}, text, t(`try.trained.${part}.why`)),
    table(caption, [t("try.trained.loss"), t("try.trained.paper"), t(`try.trained.without.${part}`)], rows),
    make("p", { class: "note" }, caption, " ", make("code", {}, "benchmarks/without_mask_or_scale.py")),
    make(
      "p",
      {},
      t("try.trained.writes", TRAINED.sentence),
      ...models.flatMap(({ translation }, i) => [
        make("br"),
        t(i ? `try.trained.without.${part}` : "try.trained.paper"),
        ": ",
        make("q", { lang: "de" }, shortened(translation)),
      ]),
    ),
  );
}

/** The mean over all heads and queries of Σ p (1 − p), with and without the division of the same scores. */
function gradientText(look) {
  const data = new LookData(look);
  const root = Math.sqrt(data.model.d_k);
  const gradients = { with: [], without: [] };
  for (const { attention, layer } of look.attentions.filter(({ attention }) => ATTENTION_KINDS.includes(attention))) {
    for (let head = 0; head < data.model.n_heads; head += 1) {
      data.querySide(attention).pieces.forEach((_, query) => {
        const { scores, visible } = data.row({ attention, layer, head }, query);
        gradients.with.push(gradientLeft(softmax(scores.map((x) => x / root), visible)));
        gradients.without.push(gradientLeft(softmax(scores, visible)));
      });
    }
  }
  const [divided, plain] = [mean(gradients.with), mean(gradients.without)];
  return t("try.gradient", numberElement(divided, formatNumber(divided)), numberElement(plain, formatNumber(plain)));
}

const shortened = (/** @type {string} */ text) => (text.length > 80 ? `${text.slice(0, 80)}…` : text);
