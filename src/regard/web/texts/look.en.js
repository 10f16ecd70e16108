// The stage in English: names first, then what is told at each stop.

const PART_NAMES = { self: "self-attention", cross: "encoder–decoder attention", feed_forward: "feed-forward" };
const USE_NAMES = {
  encoder: "Encoder self-attention",
  decoder: "Decoder self-attention (masked)",
  cross: "Encoder–decoder attention",
};
const BLOCK_NAMES = {
  pieces: "pieces",
  embedding: "embedding × √d_model",
  position: "+ position",
  norm: "norm",
  self: "self-attention",
  cross: "enc–dec attention",
  feed_forward: "feed-forward",
  add: "add",
  add_norm: "add & norm",
  linear: "linear",
  softmax: "softmax",
  output: "translation",
};

export const LOOK_EN = {
  uses: USE_NAMES,
  shortUses: { encoder: "Encoder", decoder: "Decoder", cross: "Encoder → decoder" },
  parts: PART_NAMES,
  stacks: { encoder: "Encoder", decoder: "Decoder" },
  sides: { source: "source", target: "target" },
  blocks: BLOCK_NAMES,
  shortBlocks: {
    pieces: "text",
    embedding: "emb",
    position: "pos",
    self: "self",
    cross: "cross",
    feed_forward: "ff",
    softmax: "softmax",
    output: "beam",
  },
  figure: "Map of the model: Figure 1 of the paper",
  walk: "Walk through the model",
  back: "Back",
  next: "Next",
  attention: "Attention",
  side: "Side",
  stack: "Stack",
  layer: "Layer",
  head: "Head",
  level: "Show",
  words: "words",
  pieces: "pieces",
  word: "Word",
  piece: "Piece",
  number: "Number",
  value: "Value",
  unit: "Unit",
  key: "Key",
  score: "Score",
  weight: "Weight",
  total: "Sum",
  length: "Length",
  position: "Place",
  step: "Step",
  off: "off",
  show: "Show it",
  yes: "yes",
  no: "no",
  kept: "Kept",
  try: "Try",
  asTable: "As a table",
  mask: "mask",
  entropy: "Entropy",
  probability: "Probability",
  sublayer: "Sub-layer",
  headName: ({ attention, layer, head }) => `${USE_NAMES[attention]}, layer ${layer + 1}, head ${head + 1}`,
  layerHead: (layer, head) => `${layer + 1} · ${head + 1}`,
  breadcrumb: ({ attention, layer, head }) => [USE_NAMES[attention], `layer ${layer + 1}`, `head ${head + 1}`],
  breadcrumbLayer: (stack, layer) => [stack === "encoder" ? "Encoder" : "Decoder", `layer ${layer + 1}`],
  breadcrumbSide: (
    side,
  ) => [side === "source" ? "Encoder" : "Decoder", side === "source" ? "source sentence" : "translation so far"],
  breadcrumbOutput: ["Decoder", "output"],
  blockName: ({ kind, stack, layer }) => {
    const where = stack === "encoder" ? "encoder" : "decoder";
    if (kind === "layer") return `${where}, layer ${layer + 1}`;
    if (layer === undefined) return `${where}: ${BLOCK_NAMES[kind]}`;
    return `${where}, layer ${layer + 1}: ${
      kind === "self" && stack === "decoder" ? "masked self-attention" : BLOCK_NAMES[kind]
    }`;
  },

  // pictures
  piecesCaption: (n, words, size) =>
    `${n} pieces of ${words} words; the number of each in the list of ${size.toLocaleString("en")}`,
  embeddingCaption: (d) => `One row of ${d} numbers for each piece`,
  embeddingLabel: (piece) => `Embeddings, compared with ${piece}`,
  embeddingHint: (piece) =>
    `Right: how alike each vector is to that of ${piece} (1 = same direction). Choose another row to compare with it.`,
  embeddingAt: (piece, i, weight, root, product) => `${piece}, number ${i}: ${weight} × ${root} = ${product}`,
  similarity: (piece) => `Like ${piece}`,
  similarityToPosition: (p) => `Like place ${p}`,
  similarityToInput: "Like the start",
  positionN: (p) => `place ${p}`,
  sum: "sum",
  sumLabel: "Embedding plus position",
  sumHint: "Point at a number to see it added up. Right: the vector's length.",
  sumOwn: (piece, p) => `${piece} where it stands, at place ${p}`,
  sumMoved: (piece, from, to) => `${piece} moved from place ${from} to place ${to}`,
  wavesCaption: (
    n,
    waves,
  ) => (waves
    ? `The waves of ${n} places (rows): full ink is +1, none is −1`
    : `The ${n} learned place vectors of this sentence (rows): more ink is more`),
  sourcesCaption: "Where queries, keys and values come from in the three uses of attention",
  comesFrom: {
    encoder: [["source", "source"], ["source", "source"], ["source", "source"]],
    decoder: [["target so far", "target"], ["target so far", "target"], ["target so far", "target"]],
    cross: [["target so far", "target"], ["encoder’s output", "source"], ["encoder’s output", "source"]],
  },
  qkvNames: ["q: what a word looks for", "k: what it can be found by", "v: what it hands over"],
  pointAtNumber: "Point at a number, or use ← → here, to see it worked out.",
  looksAt: "looks at →",
  looksMostAt: "Looks most at",
  whoLooks: "Who looks",
  mapCaption: "Rows look at columns; full colour is a weight of 1",
  scoresCaption: (low, high) => `Scores: from ${low} (blank) to ${high} (full colour)`,
  linesCaption: "The same as lines: left looks at right",
  maskedCaption: "Rows look at columns; hatched is the future, hidden by the mask",
  unmaskedCaption: "Without the mask, recomputed for this head: rows look ahead too",
  crossCaption: "Rows are words being written, columns the source",
  hiddenByMask: "hidden by the mask",
  cellTitle: (query, key) => ["One cell, worked out: ", query, " looks at ", key],
  cellVectors: "The vectors of this cell",
  andMore: (n) => ` + … ${n} more`,
  additiveSum: (n) => `${n} terms, each with a learned factor, add up to`,
  maskHides: "this key lies in the future:",
  timesValue: (weight, d) => `${weight} times all ${d} numbers of v go into the sum`,
  joined: (row, column, entry) =>
    `These are the strongest of the pieces. In the map, “${row}” → “${column}” is ${entry}: summed over the key’s pieces, averaged over the query’s.`,
  switchWithout: (d) => `Without ÷ √${d}`,
  switchWith: (d) => `With ÷ √${d}`,
  withRoot: "with ÷ √d_k",
  withoutRoot: "without",
  withoutCaption: (piece) => `What ${piece} would look at, with and without ÷ √d_k`,
  softmaxCaption: (piece) => `The row of ${piece}, step by step`,
  valuesCaption: (piece) => `Values × weights, added up for ${piece}`,
  valuesHint: "Point at a number to see its largest terms and their sum.",
  valuesOff: "This head is switched off: whatever it found, its output is set to 0.",
  headOutput: "output",
  largestTerm: "Largest term",
  headGridCaption: (heads, layers) =>
    `All heads: ${layers === 1 ? "one layer" : `${layers} layers (rows)`}, ${
      heads === 1 ? "one head" : `${heads} heads`
    } each`,
  topWordsCaption: (unit) => `Where each head (layer · head) looks most from “${unit}”`,
  thisHead: (head) => `head ${head + 1}`,
  joinedLabel: "all heads",
  joinedCaption: (heads, d_k, d) => `Laid end to end: ${heads} × ${d_k} = ${d} numbers`,
  joinedAt: (i, head, value) => `${i} (head ${head}): ${value}`,
  mixedCaption: "Mixed by W_O: what the sub-layer hands on",
  before: "was there",
  added: "added",
  after: "after",
  normalised: "normalised",
  lengthsCaption: "Length of each word’s vector, and of what was added to it",
  residualCaption: (unit) => `“${unit}”, number by number`,
  normFacts: (m, s, m2, s2) =>
    `Before normalising: mean ${m}, spread ${s}. After (with the learned gain): mean ${m2}, spread ${s2}.`,
  preNormFacts: (m, s) =>
    `The sum has mean ${m} and spread ${s}; the next sub-layer normalises its own copy before it reads.`,
  unitsCaption: (unit, firing, n) => `“${unit}”: ${firing} of ${n} units fire`,
  unitCaption: (unit) => `Unit ${unit} over the sentence`,
  afterLayer: (n) => `layer ${n}`,
  input: "input",
  layersCaption: (unit, n, d) => `“${unit}” on its way up; every layer gives ${n} × ${d} numbers`,
  layersHint: "Right: how alike the vector still is to the input (1 = same direction).",
  switchMask: "Lift the mask",
  alignmentHead: (layer, head) =>
    `Measured after training: layer ${layer + 1}, head ${head + 1} shows best which word translates which.`,
  encoderOutputCaption: (n, d, total, pre) =>
    `All that passes: ${n} × ${d} = ${total} numbers${pre ? " (normalised once more on the way)" : ""}`,
  vocabularyCaption: (step, of, entropy) => `Step ${step} of ${of}: the ten likeliest pieces; entropy ${entropy} nats`,
  target: "Asked for",
  targetLegend: (epsilon, size, right, rest) =>
    `What training asks for when this piece is the right one (smoothing ${epsilon}): ${right} here, ${rest} on each of the other ${
      (size - 1).toLocaleString("en")
    }.`,
  logProbability: (total) => `Log-probability of the whole translation: ${total}`,
  beamCaption: (width, step) => `Beam of ${width} at step ${step}: kept beginnings in full ink, dropped ones pale`,
  finishedCaption: "Finished sentences",
  finishedSentence: "Sentence",
  sumOfLogs: "Σ log p",
  scoreAfterPenalty: "÷ length penalty",
  noBeam:
    "This translation was given, not searched for, so there is no tree. Leave the translation out to see the beam grow.",
};
