// The English texts of "Look inside": names and captions.

const SUBLAYER_NAMES = { self: "self-attention", cross: "encoder–decoder attention", feed_forward: "feed-forward" };
const ATTENTION_NAMES = {
  encoder: "Encoder self-attention",
  decoder: "Decoder self-attention (masked)",
  cross: "Encoder–decoder attention",
};
const BLOCK_NAMES = {
  pieces: "tokens",
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
  "recorded.predictions": "What it predicted",
  "recorded.others": "Most likely instead",
  "recorded.field": "Field",
  "recorded.words": "What the label depends on",
  "recorded.word": "Word",
  "recorded.without": "Probability of the label without it",
  "recorded.gradient": "Share of the gradient",
  "recorded.expected": "What the model expects in the place of each word",
  "recorded.hidden": "Its probability when it is hidden",
  "recorded.guesses": "Expected",
  "recorded.replaced": "Replaced",
  "recorded.written": "The generator writes, replaced",
  "recorded.orders.left to right": "Left to right",
  "recorded.orders.right to left": "Right to left",
  "recorded.orders.random order": "Random order",
  "recorded.head": (n) => `head ${n}`,
  "recorded.sites": "What it computed",
  "recorded.how": (size) =>
    `${size ? `The model: ${size}. ` : ""}Each row of bars is a vector; the number beside it is its length. ` +
    "Point at a bar to see the numbers.",
  "recorded.scoresCaption": "Scores before the softmax; those below zero are grey",
  "recorded.unit": (n) => `Number ${n} of each vector`,
  "recorded.kinds": {
    attention: "attention weights",
    scores: "scores",
    mask: "mask",
    embedding: "embedding",
    vector: "vectors",
    state: "state",
    gates: "gates",
    memory: "memory",
    hops: "hops",
    logits: "logits",
  },
  "recorded.axes": {
    source: "source",
    target: "target",
    unit: "unit",
    head: "head",
    symbol: "symbol",
    step: "step",
    column: "column",
    row: "row",
  },
  "recorded.memory": "how much is in each column of the memory (across) after each step (down)",
  "recorded.memoryRow": (n) => `row ${n}`,
  depends: {
    title: "What each word depends on",
    how: "Two measures of what the probability of each word depends on: gradients, and leaving out one word of the " +
      "source at a time.",
    beside:
      "Attention shows where the model looks, not what its output depends on. Beside it are two measures of that: " +
      "gradients, and leaving out one word of the source at a time.",
    attention: "Attention weights",
    gradient: "Gradient of the log-probability: its norm, as shares of the row",
    left_out: "Left out: how much the log-probability falls without the word; grey: rises",
    agreement: "How far they agree: Kendall’s τ. 1 means that both rank the source words in the same order, 0 that " +
      "there is no relation, −1 the reverse order.",
    short: { attention: "attention", gradient: "gradient", left_out: "left out" },
    word: "Word",
    mean: "mean",
  },
  attentionNames: ATTENTION_NAMES,
  shortAttentionNames: { encoder: "Encoder", decoder: "Decoder", cross: "Encoder → decoder" },
  sublayerNames: SUBLAYER_NAMES,
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
  stops: [
    "tokens",
    "embed",
    "position",
    "q, k, v",
    "scores",
    "softmax",
    "values",
    "heads",
    "add",
    "units",
    "layers",
    "mask",
    "enc–dec",
    "output",
    "beam",
    "quiz",
  ],
  pair: "Predict, then see: what does the pronoun look at?",
  pairHint: ({ attention, layer, head }) =>
    `Two sentences that differ in one word. After training, every head was measured: ${
      ATTENTION_NAMES[attention].toLowerCase()
    }, layer ${layer + 1}, head ${head + 1} finds the noun of a pronoun most often.`,
  pairQuestion: (pronoun) => `Which word does “${pronoun}” look at in this head? Click your guess above.`,
  pairAnswer: (pronoun) => `“${pronoun}” looks at:`,
  guessRight: "As you predicted.",
  guessWrong: "Not as you predicted: compare the two sentences.",
  quiz: {
    keys: "In encoder–decoder attention, how many keys does each word of this translation see?",
    passes: (layers) =>
      `This encoder has ${layers} ${
        layers === 1 ? "layer" : "layers"
      }. If it had twice as many, how many numbers would pass to the decoder for this sentence?`,
    visible: (row) => `In row ${row} of the decoder’s self-attention, how many weights are not 0?`,
    unmasked: "A model is trained without the mask. Compared with one that is trained with it…",
    root: "By what does this model divide q · k before the softmax?",
    largest:
      "Take the first word’s row in the encoder’s first head. Without the division by √d_k, its largest weight would be…",
    twice: (token) =>
      `If ${token} stood at two places of a sentence, how similar would its two embeddings be (cosine), before positions are added?`,
    near: (position) => `Which position’s pattern is most similar to that of position ${position}?`,
    shape: "What is the shape of the output of the encoder’s first layer for this sentence?",
    residual: (token) => `At ${token}, in the first feed-forward sub-layer: which vector is longer?`,
    target: (epsilon) => `With label smoothing of ${epsilon}, what is the target probability of the correct token?`,
    shared: (size, d) =>
      `${size} tokens of ${d} numbers each: how many parameters does this model save by sharing matrices?`,
    separate: (size, d) =>
      `${size} tokens of ${d} numbers each: how many parameters would this model save by using one matrix for its target embedding and its softmax?`,
    looks: (word, layer) =>
      `Predict, then look: which word does “${word}” look at most, in head 1 of encoder layer ${layer}?`,
    elsewhere: (word, heads, layer) =>
      `Of the ${heads} heads of encoder layer ${layer}, how many look most at a word other than “${word}” itself, from “${word}”?`,
    right: () => "Right.",
    wrong: (answer) => `No: ${answer}.`,
    score: (right, picked, all) => `${right} right of ${picked} answered, ${all} in all.`,
    options: {
      larger: "larger",
      same: "the same",
      smaller: "smaller",
      copies: "its training loss is lower, but its translations are wrong",
      better: "its training loss is lower, and its translations are better",
      worse: "its training loss is higher, and its translations are worse",
      nothing: "by nothing",
      before: "the one before the sub-layer",
      added: "the one that is added",
    },
  },
  figure: "The model, as in Figure 1 of the paper",
  walk: "Walk through the model",
  back: "Back",
  next: "Next",
  attention: "Attention",
  side: "Sentence",
  stack: "Stack",
  layer: "Layer",
  head: "Head",
  level: "Show",
  words: "words",
  tokens: "tokens",
  word: "Word",
  token: "Token",
  tokenId: "ID",
  value: "Value",
  unit: "Unit",
  key: "Key",
  score: "Score",
  weight: "Weight",
  total: "Sum",
  length: "Length",
  position: "Position",
  step: "Step",
  off: "off",
  show: "Show it",
  yes: "yes",
  no: "no",
  kept: "Kept",
  try: "Try this:",
  asTable: "As a table",
  mask: "mask",
  entropy: "Entropy",
  gradient: "Gradient: Σ p (1 − p)",
  probability: "Probability",
  sublayer: "Sub-layer",
  headName: ({ attention, layer, head }) => `${ATTENTION_NAMES[attention]}, layer ${layer + 1}, head ${head + 1}`,
  layerHead: (layer, head) => `${layer + 1} · ${head + 1}`,
  breadcrumb: ({ attention, layer, head }) => [ATTENTION_NAMES[attention], `layer ${layer + 1}`, `head ${head + 1}`],
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
  tokensCaption: (n, words, size) =>
    `${n} tokens for ${words} words, each with its ID in the vocabulary of ${size.toLocaleString("en")}`,
  embeddingCaption: (d) => `One row of ${d} numbers per token`,
  embeddingLabel: (token) => `Embeddings, compared with ${token}`,
  embeddingHint: (token) =>
    `Right: cosine similarity to the vector of ${token} (1 = same direction). Choose another row to compare with it.`,
  embeddingAt: (token, i, weight, root, product) => `${token}, number ${i}: ${weight} × ${root} = ${product}`,
  similarity: (token) => `Similarity to ${token}`,
  similarityToPosition: (p) => `Similarity to position ${p}`,
  similarityToInput: "Similarity to the input",
  positionN: (p) => `position ${p}`,
  sum: "sum",
  sumLabel: "Embedding plus position",
  sumHint: "Point at a number to see the sum. Right: the length of the vector.",
  sumOwn: (token, p) => `${token} at its own position, ${p}`,
  sumMoved: (token, from, to) => `${token} moved from position ${from} to position ${to}`,
  wavesCaption: (
    n,
    waves,
  ) => (waves
    ? `The waves of ${n} positions (rows): dark is +1, blank is −1`
    : `The ${n} learned position vectors of this sentence (rows): darker is larger`),
  sourcesCaption: "Where queries, keys and values come from in the three kinds of attention",
  qkvSources: {
    encoder: [["source", "source"], ["source", "source"], ["source", "source"]],
    decoder: [["target so far", "target"], ["target so far", "target"], ["target so far", "target"]],
    cross: [["target so far", "target"], ["encoder’s output", "source"], ["encoder’s output", "source"]],
  },
  qkvNames: ["q: what a word is looking for", "k: what it can be found by", "v: what it passes on"],
  product: "From x to",
  productColumn: "Column of W",
  productSum: (word, vector, column) => [`Number ${column} of ${vector} for “${word}”: `],
  pointAtNumber: "Point at a number, or use ← → here, to see the calculation.",
  attendsTo: "attends to →",
  attendsMostTo: "Attends most to",
  query: "Query",
  mapCaption: "Rows attend to columns; full colour is a weight of 1",
  scoresCaption: "Scores before the softmax; 0 has no colour, and the scale stays the same with the switch",
  linesCaption: "The same as lines: words on the left attend to words on the right",
  maskedCaption: "Rows attend to columns; hatched cells are later words, hidden by the mask",
  unmaskedCaption: "Recomputed without the mask: rows attend to later words, too",
  crossCaption: "Rows are words of the translation, columns are words of the source",
  hiddenByMask: "hidden by the mask",
  cellTitle: (query, key) => ["The calculation of one cell: ", query, " attends to ", key],
  cellVectors: "The vectors of this cell",
  moreTerms: (n) => ` + … ${n} more`,
  additiveSum: (n) => `${n} terms, each with a learned factor, add up to`,
  maskHides: "this key is a later word:",
  timesValue: (weight, d) => `all ${d} numbers of v are multiplied by ${weight} and added to the sum`,
  largestPair: (row, column, entry) =>
    `This is the pair of tokens with the largest weight. In the map, “${row}” → “${column}” is ${entry}: the sum over the key’s tokens, averaged over the query’s tokens.`,
  switchWithout: (d) => `Without ÷ √${d}`,
  switchWith: (d) => `With ÷ √${d}`,
  withRoot: "with ÷ √d_k",
  withoutRoot: "without",
  withoutCaption: (token) => `The weights of ${token} with and without ÷ √d_k`,
  softmaxCaption: (token) => `The row of ${token}, step by step`,
  valuesCaption: (token) => `Weights × values, summed for ${token}`,
  valuesHint: "Point at a number to see its largest terms and their sum.",
  valuesOff: "This head is switched off: its output is set to 0.",
  headOutput: "output",
  largestTerm: "Largest term",
  headGridCaption: (heads, layers) =>
    `All heads: ${layers === 1 ? "one layer" : `${layers} layers (rows)`}, ${
      heads === 1 ? "one head" : `${heads} heads`
    } each`,
  topWordsCaption: (unit) => `What each head (layer · head) attends to most from “${unit}”`,
  thisHead: (head) => `head ${head + 1}`,
  allHeads: "all heads",
  concatenatedCaption: (heads, d_k, d) => `Concatenated: ${heads} × ${d_k} = ${d} numbers`,
  concatenatedAt: (i, head, value) => `${i} (head ${head}): ${value}`,
  mixedCaption: "Multiplied by W_O: the output of the sub-layer",
  before: "before",
  added: "added",
  after: "after",
  normalised: "normalised",
  lengthsCaption: "Length of each word’s vector, and of what is added to it",
  residualCaption: (unit) => `“${unit}”, number by number`,
  normFacts: (m, s, m2, s2) =>
    `Before normalising: mean ${m}, standard deviation ${s}. After (with the learned gain): mean ${m2}, standard deviation ${s2}.`,
  preNormFacts: (m, s) =>
    `The sum has mean ${m} and standard deviation ${s}; the next sub-layer reads a normalised copy of it.`,
  unitsCaption: (unit, active, n) => `“${unit}”: ${active} of ${n} units are active`,
  unitCaption: (unit) => `Unit ${unit} for each word of the sentence`,
  afterLayer: (n) => `layer ${n}`,
  input: "input",
  layersCaption: (unit, n, d) => `“${unit}” after each layer; the output of a layer is ${n} × ${d} numbers`,
  layersHint: "Right: cosine similarity to the input (1 = same direction).",
  switchMask: "Without the mask",
  alignmentHead: (layer, head) =>
    `Layer ${layer + 1}, head ${head + 1} gives the best word alignment, as measured after training.`,
  encoderOutputCaption: (n, d, total, pre) =>
    `The encoder’s output: ${n} × ${d} = ${total} numbers${pre ? " (before the final normalisation)" : ""}`,
  vocabularyCaption: (step, of, entropy) =>
    `Step ${step} of ${of}: the ten most likely tokens; entropy ${entropy} nats`,
  target: "Target",
  targetLegend: (epsilon, size, right, rest) =>
    `Training target if this token is correct (label smoothing ${epsilon}): ${right} for this token, ${rest} for each of the other ${
      (size - 1).toLocaleString("en")
    }.`,
  logProbability: (total) => `Log-probability of the whole translation: ${total}`,
  beamCaption: (width, step) =>
    `Beam of ${width} at step ${step}: kept hypotheses dark, dropped ones pale. The number is Σ log p, and after </s> Σ log p ÷ length penalty, the score by which translations are compared`,
  finishedCaption: "Finished hypotheses",
  finishedSentence: "Sentence",
  sumOfLogs: "Σ log p",
  scoreAfterPenalty: "÷ length penalty",
  beamOther:
    "This is the model’s own search. The translation above was selected from the list, or found in another way, so it need not be the best one here.",
  beamEngine:
    "Computed with PyTorch in full precision. The service translates with CTranslate2, whose weights may be quantised, so the scores of its alternatives can differ slightly.",
  noBeam:
    "This translation was given, not found by search, so there is no beam to show. The model’s own translation has one.",
};
