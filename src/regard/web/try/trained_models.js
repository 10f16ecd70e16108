// Made by benchmarks/without_mask_or_scale.py.

export const TRAINED = {
  "sentence": "The animal did not hate the meadow because it was too flat.",
  "validation_sentences": 100,
  "paper": {
    "rows": [
      { "step": 25, "loss": 3.5199, "accuracy": 0.3665 },
      { "step": 50, "loss": 2.2492, "accuracy": 0.5285 },
      { "step": 100, "loss": 1.1606, "accuracy": 0.7654 },
      { "step": 200, "loss": 0.2741, "accuracy": 0.9437 },
      { "step": 300, "loss": 0.1352, "accuracy": 0.9715 },
    ],
    "translation": "Das Tier hasste die Wiese nicht, weil sie zu flach war.",
    "exact": 0.68,
  },
  "mask": {
    "rows": [
      { "step": 25, "loss": 3.6367, "accuracy": 0.3534 },
      { "step": 50, "loss": 2.1123, "accuracy": 0.5965 },
      { "step": 100, "loss": 0.7033, "accuracy": 0.8958 },
      { "step": 200, "loss": 0.0879, "accuracy": 0.99 },
      { "step": 300, "loss": 0.0389, "accuracy": 0.9946 },
    ],
    "translation":
      "Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der Der",
    "exact": 0.0,
  },
  "scale": {
    "rows": [
      { "step": 25, "loss": 3.6724, "accuracy": 0.3619 },
      { "step": 50, "loss": 2.4608, "accuracy": 0.5062 },
      { "step": 100, "loss": 1.8558, "accuracy": 0.561 },
      { "step": 200, "loss": 1.3262, "accuracy": 0.6852 },
      { "step": 300, "loss": 0.8067, "accuracy": 0.8048 },
    ],
    "translation": "Das Tier sah die Wiese nicht, weil sie zu flach war.",
    "exact": 0.03,
  },
};
