// The languages of the stage. Each is written by hand; none is a translation of the other word for word.

import { ENGLISH_NAMES } from "./texts.en.js";
import { KOREAN_NAMES } from "./texts.ko.js";
import { ENGLISH_STOPS } from "./texts_stops.en.js";
import { KOREAN_STOPS } from "./texts_stops.ko.js";

const LANGUAGES = { en: { ...ENGLISH_NAMES, stops: ENGLISH_STOPS }, ko: { ...KOREAN_NAMES, stops: KOREAN_STOPS } };

export function textsOf(language) {
  return LANGUAGES[language] ?? LANGUAGES.en;
}
