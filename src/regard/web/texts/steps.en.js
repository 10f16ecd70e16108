// What is told at each stop in English: a title, two sentences, the questions that belong here, one thing to try.
// f holds the facts of this model and sentence.

export const STEPS_EN = {
  pieces: {
    title: () => "The sentence is cut into pieces",
    text: (f) =>
      `The model knows ${f.size} pieces, each by its number; frequent words stay whole, rare ones fall into parts. ▁ marks the start of a word, and </s> the end of the sentence.`,
    try: () => "Put a word that you have made up into your sentence, and see where it is cut.",
    questions: [[
      "Why pieces and not words?",
      (f) =>
        `A list of all words has no end, and most of them are too rare to learn from. ${f.size} pieces spell nearly any text, and what is learned about a stem or an ending helps every word that has it.`,
    ]],
  },
  embedding: {
    title: (f) => `Each piece becomes ${f.d_model} numbers`,
    text: (f) =>
      `A learned table holds one row of ${f.d_model} numbers for every piece; the row is fetched and multiplied by √${f.d_model} = ${f.root_model}. A piece has the same numbers wherever it stands.`,
    try: () =>
      "Choose a word that occurs twice: both rows are the same, likeness 1.00. Nothing here knows which came first.",
    questions: [[
      "Why × √d_model?",
      (f) =>
        `${
          f.tie === "none"
            ? "Learned embeddings are small numbers."
            : "The same table serves the softmax at the end, where its numbers have to be small."
        } The factor makes them large enough not to drown in ${
          f.waves ? "the waves that are added next, which go up to 1" : "the place vectors that are added next"
        }.`,
    ]],
  },
  position: {
    title: () => "Where it stands is added",
    text: (f) =>
      f.waves
        ? "Every place has a pattern of its own: sines and cosines of the place, fast at the left of the strip and slower and slower to the right, like the hands of a clock. It is simply added to the embedding."
        : "Every place has a pattern of its own, which this model learned (the paper chose fixed waves, with nearly the same result). It is simply added to the embedding.",
    try: (
      f,
    ) => (f.waves
      ? "Slide the word to another place: the left of the strip changes at once, the right hardly."
      : "Slide the word to another place and watch the sum change."),
    questions: [[
      "Why does order get lost, and what does this add?",
      () =>
        "Attention compares words in pairs and sums up; shuffle the sentence and every pair scores as before, so “dog bites man” and “man bites dog” would be one. The pattern marks each vector with its place, and places near each other have patterns that are alike.",
    ]],
  },
  qkv: {
    title: () => "Query, key and value",
    text: (f) =>
      `Three learned matrices make three vectors of each word: a query (what it looks for), a key (what it can be found by) and a value (what it hands over when found). Every head has matrices of its own, to d_k = ${f.d_k} numbers.`,
    try: () => "Switch between the three uses above and see whose words stand in each column.",
    questions: [
      [
        "What do Q, K and V stand for?",
        () =>
          "Query, key and value, as in looking something up: the query is held against all keys, and how well each fits decides how much of its value is taken. None of them is given; all three are learned, because taking the right values made translations better.",
      ],
      [
        "Where does each come from in the three uses?",
        () =>
          "In the encoder all three come from the source sentence, in the decoder’s own attention all three from the translation so far. Between the two, queries come from the decoder, keys and values from the encoder’s output.",
      ],
    ],
  },
  scores: {
    title: () => "Every query meets every key",
    text: (f) => {
      if (f.kind === "additive") {
        return "The score of a pair is vᵀ tanh(q + k), a small network with one hidden layer. This is the attention of the models before the Transformer, which the paper compares with; nothing is divided.";
      }
      const sum = `The score of a pair is q · k: multiply number by number and add up, ${f.d_k} products.`;
      return f.divides
        ? `${sum} It is divided by √d_k = √${f.d_k} = ${f.root_k} before the softmax sees it.`
        : `${sum} This model does not divide by √${f.d_k} = ${f.root_k}, as the paper would.`;
    },
    try: (
      f,
    ) => (f.kind === "additive"
      ? "Click a cell and follow q, k and tanh(q + k) number by number."
      : "Turn the switch on and watch the weights of one row crowd onto one word."),
    questions: [[
      "Why divide by √d_k?",
      (f) =>
        `A sum of ${f.d_k} products varies √${f.d_k} = ${f.root_k} times as much as one product, and the softmax of large numbers gives nearly everything to one word: then no gradient is left to learn from. In this row the largest weight is ${f.with_root} with the division and ${f.without_root} without.`,
    ]],
  },
  softmax: {
    title: () => "Scores become weights",
    text: () =>
      "e to the power of each score, divided by the sum of the row: numbers between 0 and 1 that add up to 1. This is the attention map that everyone draws.",
    try: () => "Click two cells of one row: a word can only gain what the others lose.",
    questions: [[
      "Why softmax?",
      () =>
        "It makes shares of any scores, positive and adding up to 1, so that the next step is an average. And it is smooth: a little more score is a little more weight, so that training can tell which way to push, as picking only the best could not.",
    ]],
  },
  values: {
    title: () => "A weighted sum of values",
    text: (f) =>
      `Each word’s value is multiplied by its weight, and all are added up: this head’s output for “${f.row}”, ${f.d_k} numbers. What has a weight near 0 leaves no trace.`,
    try: () => "Move along the strips: at every number the terms and their sum are shown.",
    questions: [[
      "How can all words be encoded at once?",
      (f) =>
        `No row waits for another: the ${f.n_rows} queries form one matrix, and QKᵀ and its product with V are each one matrix product for the whole sentence. A recurrent network would have to take ${f.n_rows} steps, one after the other.`,
    ]],
  },
  heads: {
    title: (f) => (f.n_heads === 1 ? "One head, and W_O" : `${f.n_heads} heads side by side`),
    text: (f) =>
      `${
        f.n_heads === 1
          ? "The head’s output is"
          : `${f.n_heads} heads do all this at the same time, each with its own matrices, and their outputs are`
      } laid end to end: ${f.n_heads} × ${f.d_k} = ${f.d_model} numbers. One more matrix, W_O, mixes them, and that is what the sub-layer hands on.`,
    try: () =>
      "Let “it” look in “The animal did not cross the street because it was too tired”; then change “tired” to “wide”.",
    questions: [
      [
        "Why several heads, and what does each look at?",
        () =>
          "One softmax has to blend everything that it wants into one average; several can look at different things, one at the word before, one at the verb. The list shows where each head of this model really looks from the chosen word.",
      ],
      [
        "Does “it” look at “the animal”, as in the famous picture?",
        (
          f,
        ) => (f.it
          ? `The list shows what every head does with “${f.row}” in your own sentence, with its weight. Often only a head or two find the noun, and others look at the verb, the end or the word itself.`
          : "Choose the pronoun in your sentence, if it has one, and read where each head looks. Often only a head or two find the noun, and others look at the verb, the end or the word itself."),
      ],
    ],
  },
  residual: {
    title: (f) => (f.post ? "Add, then normalise" : "Normalise, then add"),
    text: (f) =>
      f.post
        ? "What the sub-layer found is added to what was there, and the sum is brought to mean 0 and spread 1: LayerNorm(x + Sublayer(x)). The bars show how long the vector was and how long the addition is."
        : "The sub-layer reads a normalised copy (mean 0, spread 1), and what it finds is added to what was there: x + Sublayer(LayerNorm(x)). The paper normalises after adding; this order trains more calmly.",
    try: () => "Compare the layers: where is more added than was there?",
    questions: [[
      "What do the residual connection and the normalisation do?",
      () =>
        "The way around keeps what was known, so that a sub-layer only has to learn a correction, and in training the gradient has a short way to the first layer. Normalising keeps the numbers at one size, however many layers add to them.",
    ]],
  },
  feed_forward: {
    title: () => "Each word by itself",
    text: (f) =>
      `${
        f.relu
          ? `${f.d_model} numbers become ${f.d_ff}, the negative ones are set to 0`
          : `${f.d_model} numbers become ${f.d_ff}, bent by ${f.activation}`
      }, and ${f.d_ff} become ${f.d_model} again. The same two matrices serve every position; nothing passes between words here.`,
    try: () => "Choose a unit and see which other words it fires for.",
    questions: [[
      "What is it for, when attention did the work?",
      () =>
        "Attention can only average what is there; here each word’s mixture is recognised and answered. A unit fires when its pattern is present, and then adds its own row of the second matrix.",
    ]],
  },
  layers: {
    title: () => "The same again: the next layer",
    text: (f) =>
      `A layer hands on exactly the shape that it was given, one vector of ${f.d_model} numbers for each piece, and so layers can be stacked: ${f.n_layers} here. Each has weights of its own.`,
    try: () => "Choose a word that occurs twice: the same at the input but for the place, and different at the top.",
    questions: [[
      "Why does a layer’s output have the input’s shape?",
      () =>
        "Because it is added to the input, number by number, so there must be as many. And so any number of layers fit onto each other, and every word keeps a row of its own from bottom to top.",
    ]],
  },
  masked: {
    title: () => "The decoder may not look ahead",
    text: () =>
      "The translation is written from left to right, so each row sees the columns up to its own: all later scores are set to −∞, and the softmax makes 0 of them. Rows and columns are what the decoder was given: <s>, then the words so far.",
    try: () =>
      "Lift the mask with the switch, and see how much of the weight this head would give to words that are not written yet.",
    questions: [
      [
        "Why is it masked?",
        () =>
          "In training the whole translation goes in at once, and each position has to predict the next word, which stands in the very next column. The mask covers it, so that the model learns to predict instead of to copy.",
      ],
      [
        "What happens without it?",
        () =>
          "In training the model would cheat: it reads off the answer, and its loss falls to almost nothing. In use the next word does not exist yet, and a model that only learned to copy it has nothing to say.",
      ],
    ],
  },
  cross: {
    title: () => "Across, from encoder to decoder",
    text: () =>
      "Queries come from the decoder, keys and values from the encoder: every word that is being written looks at the whole source sentence. Nothing is masked here, for the source is known from the start.",
    try: () => "Go down the rows: does each word look at the one that it translates?",
    questions: [[
      "What passes from encoder to decoder?",
      (f) =>
        `Only the encoder’s last output, one vector for each source piece: ${f.n_source} × ${f.d_model} numbers, of which every decoder layer makes its own keys and values. There is no other wire, and no single vector into which the whole sentence must fit, as in the models before.`,
    ]],
  },
  vocabulary: {
    title: () => "Softmax over the vocabulary",
    text: (f) =>
      `The decoder’s last vector is held against each of the ${f.size_target} pieces, and the softmax makes probabilities of the scores. Shown are the ten likeliest at each step; the chosen one is in bold.`,
    try: () => "Walk along the steps and find where the model hesitates: there the entropy is high.",
    questions: [
      [
        "Why label smoothing?",
        (
          f,
        ) => (f.smoothing === null
          ? "In the paper’s training the right piece is to get 0.9 and the rest is spread over all others, because a model that is asked for 1 drives its scores up without end. This model does not say whether it was trained so."
          : `Training asks for ${f.smoothed} on the right piece, and spreads the rest over all, because a model that is asked for 1 drives its scores up without end and grows too sure of itself. Perplexity suffers a little, translations gain.`),
      ],
      [
        "Why share the embedding with the softmax?",
        (
          f,
        ) => (f.tie === "none"
          ? "The paper uses one matrix for both, since the vector that a piece is read by can serve to recognise it when it is to be written. This model keeps them apart."
          : `The vector that a piece is read by also serves to recognise it when it is to be written, so one matrix of ${f.size_target} × ${f.d_model} does both. That saves ${f.shared} numbers, and what is learned at one end helps at the other.`),
      ],
    ],
  },
  beam: {
    title: () => "The beam grows",
    text: (f) =>
      `At each step the ${f.beam} best beginnings are kept and continued; under each stands the sum of its log-probabilities. When one ends with </s>, its sum is divided by a length penalty, and the best result is the translation.`,
    try: () => "Pull the slider back to the start and let the tree grow.",
    questions: [[
      "Why not take the likeliest word each time?",
      () =>
        "A word that is best now can lead into a worse sentence, and a choice that was made is never taken back. With a few beginnings kept, one that starts behind can still win.",
    ]],
  },
};
