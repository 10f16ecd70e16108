// Words: splitting lines into them, comparing two lists of them, and joining sub-word tokens to them. The JSON of a look
// calls tokens "pieces".

/** @typedef {{ text: string, special?: boolean, pieces: number[] }} Unit a word or a piece, with the indices of its pieces */
/** @typedef {{ text: string, special?: boolean, id?: number, word: number }} Piece */
/** @typedef {{ pieces: Piece[], words: Unit[] }} Sentence */
/** @typedef {"words" | "pieces"} Level */

/**
 * The words of a line and where they start, split at the same characters as by the service (Python's str.split).
 * @param {string} line
 */
export function splitWords(line) {
  // deno-lint-ignore no-control-regex
  return Array.from(line.matchAll(/[^\s\x1c-\x1f\x85]+/g), (match) => ({ text: match[0], start: match.index }));
}

/**
 * Fills a block with a line: each word in its own element, the spaces between them as they are, so that selecting and
 * copying gives the line unchanged.
 * @template {Element} T
 * @param {Element} block
 * @param {string} line
 * @param {(word: string, index: number) => T} makeWord
 * @returns {T[]} the elements of the words
 */
export function fillWithWords(block, line, makeWord) {
  const elements = [];
  let end = 0;
  block.replaceChildren();
  for (const [index, word] of splitWords(line).entries()) {
    if (word.start > end) block.append(line.slice(end, word.start));
    elements.push(makeWord(word.text, index));
    block.append(elements.at(-1));
    end = word.start + word.text.length;
  }
  if (end < line.length) block.append(line.slice(end));
  if (!line) block.append(document.createElement("br"));
  return elements;
}

/**
 * Which words of each list are not part of their longest common subsequence.
 * @param {string[]} a
 * @param {string[]} b
 * @returns {[boolean[], boolean[]]}
 */
export function changedWords(a, b) {
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const changedA = a.map(() => true);
  const changedB = b.map(() => true);
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) changedA[i++] = changedB[j++] = false;
    else if (longest[i + 1][j] >= longest[i][j + 1]) i += 1;
    else j += 1;
  }
  return [changedA, changedB];
}

/**
 * The words or the pieces of a sentence in one format.
 * @param {Sentence} sentence
 * @param {Level} level
 * @returns {Unit[]}
 */
export function unitsOf(sentence, level) {
  if (level === "words") return sentence.words;
  return sentence.pieces.map((piece, i) => ({ text: piece.text, special: piece.special, pieces: [i] }));
}

/**
 * Attention weights between pieces → between words, row-major: the sum over a key word's pieces, the mean over a query
 * word's pieces.
 * @param {ArrayLike<number>} matrix
 * @param {number} nColumns
 * @param {Unit[]} rows
 * @param {Unit[]} columns
 */
export function joinPieces(matrix, nColumns, rows, columns) {
  const joined = new Float32Array(rows.length * columns.length);
  rows.forEach((row, r) => {
    columns.forEach((column, c) => {
      let total = 0;
      for (const i of row.pieces) for (const j of column.pieces) total += matrix[i * nColumns + j];
      joined[r * columns.length + c] = total / row.pieces.length;
    });
  });
  return joined;
}

/**
 * The largest score (or visibility) of each word pair's piece pairs; sums of scores would have no meaning.
 * @param {ArrayLike<number>} matrix
 * @param {number} nColumns
 * @param {Unit[]} rows
 * @param {Unit[]} columns
 */
export function largestPiece(matrix, nColumns, rows, columns) {
  const joined = new Float32Array(rows.length * columns.length);
  rows.forEach((row, r) => {
    columns.forEach((column, c) => {
      let largest = -Infinity;
      for (const i of row.pieces) for (const j of column.pieces) largest = Math.max(largest, matrix[i * nColumns + j]);
      joined[r * columns.length + c] = largest;
    });
  });
  return joined;
}

/**
 * The index at the other level: a word's first piece, or a piece's word.
 * @param {Sentence} sentence
 * @param {number | null} index
 * @param {Level} from
 * @param {Level} to
 */
export function moveLevel(sentence, index, from, to) {
  if (from === to || index === null) return index;
  if (to === "pieces") return sentence.words[index]?.pieces[0] ?? 0;
  return sentence.pieces[index]?.word ?? 0;
}
