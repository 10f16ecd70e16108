// Unit tests of what the page computes itself; run by `deno test`, see test_javascript.py.

import { deepEqual, equal, ok } from "node:assert/strict";

import {
  decimal,
  duration,
  formatNumber,
  formatPrediction,
  formatValue,
  formatWeight,
  percent,
  powerOfTen,
} from "../../src/regard/web/format.js";
import { headKey, parseHeadKey } from "../../src/regard/web/look/head_key.js";
import { decodeArray } from "../../src/regard/web/look/look_data.js";
import { cosine, entropy, sinusoid, softmax } from "../../src/regard/web/look/math.js";
import { setLanguage, t, textTypes } from "../../src/regard/web/texts/texts.js";
import { linearTicks, logTicks, rangeOf, scale } from "../../src/regard/web/training/scales.js";
import { changedWords, joinPieces, largestPiece, moveLevel, splitWords } from "../../src/regard/web/words.js";

const close = (/** @type {number} */ a, /** @type {number} */ b) => ok(Math.abs(a - b) < 1e-6, `${a} is not ${b}`);

Deno.test("words are split as by Python's str.split", () => {
  deepEqual(splitWords("  a\u00a0b\x1cc\x85d "), [
    { text: "a", start: 2 },
    { text: "b", start: 4 },
    { text: "c", start: 6 },
    { text: "d", start: 8 },
  ]);
  deepEqual(splitWords(" \t"), []);
});

Deno.test("changed words are those outside the longest common subsequence", () => {
  deepEqual(changedWords(["the", "old", "dog"], ["the", "dog", "barks"]), [[false, true, false], [false, false, true]]);
  deepEqual(changedWords([], ["a"]), [[], [true]]);
});

Deno.test("words with probabilities are a list, blank by blank", () => {
  const guesses = [{ text: "warm", probability: 0.21 }, { text: "sad", probability: 0.09 }];
  equal(
    formatPrediction({ blanks: [guesses, guesses.slice(1)], none: [] }),
    "blanks: warm 21%, sad 9% · sad 9% · none: []",
  );
});

Deno.test("weights of words: summed over key pieces, averaged over query pieces", () => {
  const weights = [0.1, 0.2, 0.7, 0.3, 0.3, 0.4, 0.5, 0.5, 0];
  const words = [{ text: "ab", pieces: [0, 1] }, { text: "c", pieces: [2] }];
  [0.45, 0.55, 1, 0].forEach((expected, i) => close(joinPieces(weights, 3, words, words)[i], expected));
  deepEqual([...largestPiece([1, 2, 3, 4, 5, 6, 7, 8, 9], 3, words, words)], [5, 6, 8, 9]);
});

Deno.test("a word's index becomes its first piece, and back", () => {
  const piece = (/** @type {number} */ word) => ({ text: "", word });
  const words = [{ text: "a", pieces: [0] }, { text: "bc", pieces: [1, 2] }];
  const sentence = { pieces: [piece(0), piece(1), piece(1)], words };
  equal(moveLevel(sentence, 1, "words", "pieces"), 1);
  equal(moveLevel(sentence, 2, "pieces", "words"), 1);
  equal(moveLevel(sentence, null, "words", "pieces"), null);
});

Deno.test("percentages never round to certainty", () => {
  deepEqual([0, 0.004, 0.5, 0.994, 0.999, 1].map(percent), ["0%", "<1%", "50%", "99%", ">99%", "100%"]);
});

Deno.test("numbers and durations as text", () => {
  deepEqual([3.14159, -0.0042, 0.00002, 1234.5, -Infinity].map((x) => formatNumber(x)), [
    "3.14",
    "−0.004",
    "2·10⁻⁵",
    "1,235",
    "−∞",
  ]);
  deepEqual([0, 0.00003, 0.0001, 0.05, 0.5].map(formatWeight), ["0.00", "3·10⁻⁵", "0.0001", "0.050", "0.50"]);
  deepEqual([21, -5, 8.9, Math.log10(9.7e-7)].map(powerOfTen), ["10²¹", "10⁻⁵", "8·10⁸", "10⁻⁶"]);
  equal(decimal(-1234.5, 1), "−1,234.5");
  equal(decimal(null), "–");
  deepEqual([5, 95, 3725].map(duration), ["5 s", "1 min 35 s", "1 h 2 min"]);
});

Deno.test("softmax sums to 1 over the visible positions", () => {
  deepEqual([...softmax([0, 0, 5], [1, 1, 0])], [0.5, 0.5, 0]);
  close(softmax([1, 2, 3]).reduce((a, b) => a + b), 1);
  close(entropy([0.25, 0.25, 0.25, 0.25]), Math.log(4));
  close(cosine([1, 2], [2, 4]), 1);
});

Deno.test("positional encodings alternate sine and cosine", () => {
  deepEqual([...sinusoid(0, 4)], [0, 1, 0, 1]);
  close(sinusoid(3, 4)[2], Math.sin(0.03));
});

Deno.test("arrays are decoded from lists and from base64", () => {
  const nested = decodeArray([[1, 2], [3, 4]]);
  deepEqual([nested.shape, [...nested.at(1)], nested.at(1, 0)], [[2, 2], [3, 4], 3]);
  const encoded = btoa(String.fromCharCode(...new Uint8Array(new Float32Array([1, 2, 3, 4]).buffer)));
  deepEqual(decodeArray({ shape: [2, 2], float32: encoded }), nested);
  equal(decodeArray(null), null);
});

Deno.test("head keys are parsed back", () => {
  deepEqual(parseHeadKey(headKey({ attention: "cross", layer: 1, head: 12 })), {
    attention: "cross",
    layer: 1,
    head: 12,
  });
});

Deno.test("chart ticks are round and inside the range", () => {
  deepEqual(linearTicks(0, 10, 4), [0, 5, 10]);
  deepEqual(linearTicks(0, 1000, 4), [0, 250, 500, 750, 1000]);
  deepEqual(logTicks(3, 60), [5, 10, 20, 50]);
  deepEqual(rangeOf([2, 5], { zero: true }), [0, 5]);
  deepEqual(rangeOf([0.25, 0.25]), [0.25, 0.5]);
  equal(scale(1, 100, 0, 200, true)(10), 100);
});

Deno.test("a prediction of any task is one line of text", () => {
  const prediction = { label: "class 0", probability: 0.97724, n: 3, known: [true, null] };
  equal(formatPrediction(prediction), "label: class 0 · probability: 0.9772 · n: 3 · known: [true,null]");
  const labelled = { label: "b", probability: 0.75, probabilities: { a: 0.25, b: 0.75 }, none: null };
  equal(formatPrediction(labelled), `b: ${percent(0.75)} · a: ${percent(0.25)} · none: null`);
  const answered = { answer: "hall", question: "Where is he?", sentences: ["He left."], hops: [[0.139747, 0.2]] };
  equal(formatPrediction({ ...answered, unknown: [] }), "answer: hall"); // the look has the rest
  equal(formatPrediction({ ...answered, unknown: ["left", "he"] }), "answer: hall · unknown: left, he");
  equal(formatValue(answered.hops), "[[0.1397,0.2]]");
  const digits = Object.fromEntries([0.05, 0.01, 0.6, 0.3, 0.02, 0.02].map((p, digit) => [digit, p]));
  equal(formatPrediction({ digits }), "digits: 2: 0.6000, 3: 0.3000, 0: 0.0500, 4: 0.0200 …");
  const continued = { text: "It was tired.", prompt: "It was", continuation: " tired.", n_tokens: 2, other: "wide" };
  equal(formatPrediction(continued), "It was tired. · n_tokens: 2 · other: wide");
});

Deno.test("both languages have the same texts, of the same types", () => {
  deepEqual(textTypes("en").sort(), textTypes("ko").sort());
  setLanguage("ko");
  equal(t("view.translate"), "번역");
  equal(t("seconds", 5), "5초");
  setLanguage("en");
  equal(t("step.softmax.title", {}), "Scores become weights");
});
