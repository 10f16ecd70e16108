// The English texts of the steps: a title, two sentences, questions with answers, and something to try.
// `f` has the facts of this model and sentence, see look_panel.js.

export const STEPS_EN = {
  pieces: {
    title: () => "The sentence is split into tokens",
    text: (f) =>
      `The vocabulary has ${f.size} tokens (words and sub-words), each with an ID. Frequent words are one token, rare words are split into several; ▁ marks the start of a word and </s> the end of the sentence.`,
    try: (f) =>
      f.live
        ? "Add a made-up word to your sentence and see how it is split."
        : "Find a word that is split into tokens.",
    questions: [[
      "Why sub-words instead of words?",
      (f) =>
        `A language has no complete list of words, and most words are too rare to learn from. ${f.size} tokens can spell almost any text, and what is learned about a stem or an ending helps with every word that contains it.`,
    ]],
  },
  embedding: {
    title: (f) => `Each token becomes ${f.d_model} numbers`,
    text: (f) =>
      `A learned table has one row of ${f.d_model} numbers per token. The row is looked up and multiplied by √${f.d_model} = ${f.root_model}; a token has the same numbers wherever it occurs.`,
    try: () =>
      "Choose a word that occurs twice: both rows are identical, with similarity 1.00. Nothing here depends on the order of the words.",
    questions: [[
      "Why multiply by √d_model?",
      (f) =>
        `${
          f.tie === "none"
            ? "Learned embeddings are small numbers."
            : "The same table is used for the softmax at the end, where its numbers have to be small."
        } The factor keeps them from being outweighed by ${
          f.waves ? "the waves that are added next, which reach 1" : "the position vectors that are added next"
        }.`,
    ]],
  },
  position: {
    title: () => "The position is added",
    text: (f) =>
      f.waves
        ? "Each position has its own pattern: sines and cosines that change fast on the left and ever more slowly towards the right, like the hands of a clock. It is added to the embedding."
        : "Each position has its own pattern, which this model has learned (the paper chose fixed waves, with nearly the same result). It is added to the embedding.",
    try: (f) =>
      f.waves
        ? "Move the word to another position: the numbers on the left change at once, those on the right hardly at all."
        : "Move the word to another position and watch the sum change.",
    questions: [[
      "Why would word order be lost, and how does this help?",
      () =>
        "Attention compares words in pairs and adds up. If the sentence is shuffled, every pair gets the same score as before, so “dog bites man” and “man bites dog” would be the same. The pattern marks each vector with its position, and nearby positions have similar patterns.",
    ]],
  },
  qkv: {
    title: () => "Query, key and value",
    text: (f) =>
      `Three learned matrices turn each word into three vectors: a query (what it is looking for), a key (what it can be found by) and a value (what it passes on). Every head has its own matrices, and each vector has d_k = ${f.d_k} numbers.`,
    try: () => "Switch between the three kinds of attention above and see which sentence each column shows.",
    questions: [
      [
        "What do Q, K and V stand for?",
        () =>
          "Query, key and value, as in a lookup: a query is compared with all keys, and the better a key matches, the more of its value is used. All three are learned from translation examples; none is specified by hand.",
      ],
      [
        "Where do they come from in the three kinds of attention?",
        () =>
          "In the encoder, all three come from the source sentence; in the decoder’s self-attention, all three from the translation so far. In encoder–decoder attention, queries come from the decoder, keys and values from the encoder’s output.",
      ],
    ],
  },
  scores: {
    title: () => "Every query is compared with every key",
    text: (f) => {
      if (f.kind === "additive") {
        return "The score of a pair is vᵀ tanh(q + k), a small network with one hidden layer. This is the attention of earlier models, with which the paper compares its own; it is not scaled.";
      }
      const sum = `The score of a pair is the dot product q · k, a sum of ${f.d_k} products.`;
      return f.divides
        ? `${sum} It is divided by √d_k = √${f.d_k} = ${f.root_k} before the softmax.`
        : `${sum} Unlike in the paper, it is not divided by √d_k = √${f.d_k} = ${f.root_k} in this model.`;
    },
    try: (f) =>
      f.kind === "additive"
        ? "Click a cell and follow q, k and tanh(q + k) number by number."
        : "Turn on the switch and watch how one word takes most of the weight in a row.",
    questions: [[
      "Why divide by √d_k?",
      (f) =>
        `The standard deviation of a sum of ${f.d_k} products is √${f.d_k} = ${f.root_k} times that of one product. With large scores, the softmax gives almost all weight to one word, and hardly any gradient is left to learn from. In this row, the largest weight is ${f.with_root} with the division and ${f.without_root} without.`,
    ]],
  },
  softmax: {
    title: () => "Scores become weights",
    text: () =>
      "The exponential of each score, divided by the sum over the row, gives weights between 0 and 1 that add up to 1. This is the attention map that is usually shown.",
    try: () => "Click two cells in one row: a word can only gain what the others lose.",
    questions: [[
      "Why a softmax?",
      () =>
        "It turns any scores into positive weights that add up to 1, so the next step is a weighted average. It is also differentiable: a slightly higher score gives a slightly higher weight, so there is a gradient to learn from. Picking only the best word would give none.",
    ]],
  },
  values: {
    title: () => "A weighted sum of values",
    text: (f) =>
      `Each word’s value is multiplied by its weight, and the sum is this head’s output for “${f.row}”: ${f.d_k} numbers. Words with a weight near 0 contribute almost nothing.`,
    try: () => "Point at the bars to see the terms and their sum for each number.",
    questions: [[
      "How can all words be processed at once?",
      (f) =>
        `No row has to wait for another. The ${f.n_rows} queries form one matrix, so QKᵀ and its product with V are one matrix multiplication each for the whole sentence. A recurrent network would need ${f.n_rows} steps, one after the other.`,
    ]],
  },
  heads: {
    title: (f) => (f.n_heads === 1 ? "One head and W_O" : `${f.n_heads} heads in parallel`),
    text: (f) =>
      `${
        f.n_heads === 1
          ? "The output of the head is"
          : `${f.n_heads} heads do all this at the same time, each with its own matrices, and their outputs are`
      } concatenated: ${f.n_heads} × ${f.d_k} = ${f.d_model} numbers. Another matrix, W_O, mixes them into the output of the sub-layer.`,
    try: (f) =>
      f.pair
        ? "Guess below which word the pronoun attends to in each sentence; then compare the other heads."
        : "Choose a pronoun and compare what the heads attend to.",
    questions: [
      [
        "Why several heads, and what does each attend to?",
        () =>
          "A single softmax has to mix everything into one average. Several heads can attend to different things, one to the previous word, another to the verb. The list shows what each head of this model attends to from the selected word.",
      ],
      [
        "Does “it” attend to “the animal”, as in the well-known picture?",
        (f) =>
          `${
            f.it
              ? `The list shows what each head attends to from “${f.row}” in your sentence, with its weight.`
              : "If your sentence has a pronoun, select it and see what each head attends to."
          } Often only one or two heads find the noun; others attend to the verb, the end of the sentence or the word itself.`,
      ],
    ],
  },
  residual: {
    title: (f) => (f.post ? "Add, then normalise" : "Normalise, then add"),
    text: (f) =>
      f.post
        ? "The output of the sub-layer is added to its input, and the sum is normalised to mean 0 and standard deviation 1: LayerNorm(x + Sublayer(x)). The bars show the lengths of the input and of what is added."
        : "The sub-layer reads a normalised copy of its input (mean 0, standard deviation 1), and its output is added to the input: x + Sublayer(LayerNorm(x)). The paper normalises after adding; this order trains more stably.",
    try: () => "Compare the layers: where is the added vector longer than the input?",
    questions: [[
      "What are the residual connection and the normalisation for?",
      () =>
        "The residual connection passes the input on unchanged, so a sub-layer only has to learn a correction, and in training the gradient has a short path to the first layer. Normalisation keeps the numbers at the same scale, however many layers there are.",
    ]],
  },
  feed_forward: {
    title: () => "Each word on its own",
    text: (f) =>
      `${f.d_model} numbers become ${f.d_ff}, ${
        f.relu ? "negative ones are set to 0" : `pass through ${f.activation}`
      }, and become ${f.d_model} again. Every position uses the same two matrices, and nothing passes between words here.`,
    try: () => "Choose a unit and see for which other words it is active.",
    questions: [[
      "What is it for, after attention?",
      () =>
        "Attention can only average vectors. Here, the result is processed for each word: a unit is active if its pattern is present in the vector, and then adds its own row of the second matrix.",
    ]],
  },
  layers: {
    title: () => "The next layer",
    text: (f) =>
      `The output of a layer has the same shape as its input, one vector of ${f.d_model} numbers per token, so layers can be stacked: this stack has ${f.n_layers}. Each layer has its own weights.`,
    try: () =>
      "Choose a word that occurs twice: at the input only the position differs, at the top the vectors are different.",
    questions: [[
      "Why does the output of a layer have the shape of its input?",
      () =>
        "Because of the residual connection: the two are added number by number. It also means that any number of layers can be stacked, and that every word keeps its own row from bottom to top.",
    ]],
  },
  masked: {
    title: () => "The decoder cannot look ahead",
    text: () =>
      "The translation is written from left to right, so each position may only attend to itself and earlier ones: later scores are set to −∞, and the softmax turns them into 0. Rows and columns are the decoder’s input: <s>, then the words so far.",
    try: () =>
      "Remove the mask with the switch and see how much weight this head would give to words that are not written yet.",
    questions: [
      [
        "Why is there a mask?",
        () =>
          "In training, the whole translation is given at once, and each position has to predict the next word, which is right there in the next column. The mask hides it, so that the model learns to predict instead of copying.",
      ],
      [
        "What would happen without it?",
        () =>
          "In training, the model would copy the answer, and its loss would fall to almost 0. In use, the next word does not exist yet, and a model that has only learned to copy cannot write a sentence.",
      ],
    ],
  },
  cross: {
    title: () => "From the encoder to the decoder",
    text: () =>
      "Queries come from the decoder, keys and values from the encoder: each word of the translation can attend to the whole source sentence. There is no mask, since the source is known from the start.",
    try: () => "Go through the rows: does each word attend to the word that it translates?",
    questions: [[
      "What passes from the encoder to the decoder?",
      (f) =>
        `Only the encoder’s final output, one vector per source token: ${f.n_source} × ${f.d_model} numbers, from which each decoder layer computes its own keys and values. Unlike in earlier models, the sentence does not have to fit into a single vector.`,
    ]],
  },
  vocabulary: {
    title: () => "Softmax over the vocabulary",
    text: (f) =>
      `The decoder’s final vector is compared with each of the ${f.size_target} tokens, and a softmax turns the scores into probabilities. The ten most likely tokens are shown for each step; the chosen one is bold.`,
    try: () => "Go through the steps and find where the model is unsure: there the entropy is high.",
    questions: [
      [
        "Why label smoothing?",
        (f) =>
          f.smoothing === null
            ? "In the paper, the target probability of the correct token is 0.9, and the rest is spread over all others, because a target of 1 would make the scores grow without limit. Whether this model was trained like that is not recorded."
            : `The target probability of the correct token is ${f.smoothed}, and the rest is spread over all tokens. A target of 1 would make the scores grow without limit and the model overconfident. Perplexity gets slightly worse, translations get better.`,
      ],
      [
        "Why do the embedding and the softmax share a matrix?",
        (f) =>
          f.tie === "none"
            ? "The vector that represents a token at the input can also be used to recognise it at the output, so the paper uses one matrix for both. This model has separate matrices."
            : `The vector that represents a token at the input can also be used to recognise it at the output, so one matrix of ${f.size_target} × ${f.d_model} does both. That saves ${f.shared} parameters, and what is learned at one end helps at the other.`,
      ],
    ],
  },
  beam: {
    title: () => "Beam search",
    text: (f) =>
      `At each step, the ${f.beam} best hypotheses are kept and extended; the number below each is the sum of its log-probabilities. When one ends with </s>, its sum is divided by a length penalty, and the best result is the translation.`,
    try: () => "Move the slider to the start, then forward to see the tree grow.",
    questions: [[
      "Why not always take the most likely word?",
      () =>
        "The best word now can lead to a worse sentence, and a choice cannot be undone. With several hypotheses, one that starts behind can still win.",
    ]],
  },
  quiz: {
    title: () => "Check yourself",
    text: () =>
      "Two questions for each group of questions that readers of the paper ask: one to recall, one to think further. The answers are computed from the numbers of this model and your sentence.",
    try: (f) =>
      f.live
        ? "Change the sentence above: the answers change with it."
        : "Go back to the stops of the questions that were hard.",
    questions: [],
  },
};
