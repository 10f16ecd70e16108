// From pieces to words: a key word's weight is the sum over its pieces, a query word's row the mean of its pieces' rows.

/** The list of a side at a level: [{text, special, pieces}] */
export function unitsOf(side, level) {
  if (level === "words") return side.words;
  return side.pieces.map((piece, i) => ({ text: piece.text, special: piece.special, pieces: [i] }));
}

/** (pieces × pieces) → (words × words), row-major. */
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

/** The largest score (or visibility) of a word pair's piece pairs: sums of scores would mean nothing. */
export function largestPiece(matrix, nColumns, rows, columns) {
  const joined = new Float32Array(rows.length * columns.length);
  rows.forEach((row, r) => {
    columns.forEach((column, c) => {
      let top = -Infinity;
      for (const i of row.pieces) for (const j of column.pieces) top = Math.max(top, matrix[i * nColumns + j]);
      joined[r * columns.length + c] = top;
    });
  });
  return joined;
}

/** Where a unit of one level lies at the other: a word's first piece, a piece's word. */
export function moveLevel(side, index, from, to) {
  if (from === to || index === null) return index;
  if (to === "pieces") return side.words[index]?.pieces[0] ?? 0;
  return side.pieces[index]?.word ?? 0;
}
