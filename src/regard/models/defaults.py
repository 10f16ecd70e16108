"""Default values of a run that depend on the architecture: size, optimizer, learning rate, dropout.

Found by trials with the Transformer on corpora of 1,000 to a few million pairs (docs/experiments.md). An architecture
with other needs overrides a method.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Any, NamedTuple

from regard.models.config import ModelConfig

Values = dict[str, Any]  # of a section of a recipe

SMALL_CORPUS, LARGE_CORPUS = 100_000, 1_000_000  # examples
_SEVERAL_TASKS = 5_000  # questions
MIN_STEPS_FOR_SECOND_PRESET = 8_000  # a guess: with time for 3,000 steps "tiny" learned more, with 6,000 as much


class Situation(NamedTuple):
    """What the defaults depend on."""

    n_examples: int
    n_tokens: int  # of all targets
    n_steps: float | None  # with a budget: how many steps of the smallest preset fit into it
    fine_tunes: bool


class Defaults:
    """The defaults of most architectures."""

    seconds_between_validations = 40
    min_batch = 256  # tokens, if several processes share a batch
    rate = 0.64  # divided by the width: 0.005 for a new "tiny" Transformer

    def model(self, presets: Mapping[str, ModelConfig], situation: Situation) -> Values:
        """Model size: larger for more examples, if the budget has time for a larger model."""
        n, n_steps = situation.n_examples, situation.n_steps
        if n < SMALL_CORPUS or (n_steps is not None and n_steps < MIN_STEPS_FOR_SECOND_PRESET):
            number = 0
        else:
            number = 1 if n < LARGE_CORPUS or n_steps is not None else 2
        names = list(presets)
        return {"preset": names[min(number, len(names) - 1)]}

    def training(self, config: ModelConfig, situation: Situation) -> Values:
        """Batch size and optimizer: batches small enough for many steps per epoch, and a learning rate to suit them.

        Fine-tuning continues with a tenth of the learning rate, so that a model does not forget.
        """
        return {
            "max_tokens": max(256, min(2048, situation.n_tokens // 20)),
            "optimizer": "muon",
            "schedule": "cooldown",
            "rate": (self.rate / 10 if situation.fine_tunes else self.rate) / config.width,
            "clip": 1.0,
        }

    def epochs(self, situation: Situation) -> float:
        """Without a budget: fewer for more examples."""
        return max(5.0, min(60.0, 30 * float((50_000 / situation.n_examples) ** 0.35)))

    def regularisation(self, epochs: float, situation: Situation) -> Values:
        """More dropout the more often each example is seen: 0 for 2 epochs, 0.1 for 8, 0.3 for 80."""
        return {"dropout": round(max(0.0, min(0.3, 0.1 + 0.06 * log2(max(1.0, epochs) / 8))), 2)}


class ConvolutionalDefaults(Defaults):
    """Convolutions learn with twice the rate."""

    rate = 1.28


class PreNormDefaults(Defaults):
    """For architectures with `norm`: pre-norm trains with higher learning rates and less warm-up."""

    def model(self, presets: Mapping[str, ModelConfig], situation: Situation) -> Values:
        return super().model(presets, situation) | {"norm": "pre"}


class ClassificationDefaults(Defaults):
    """Classes of texts: much is learned by heart, so the best checkpoint counts, and regularisation is strong."""

    seconds_between_validations = 2
    decay = 0.8  # of the rate, from layer to layer, when a model is fine-tuned

    def model(self, presets: Mapping[str, ModelConfig], situation: Situation) -> Values:
        names = list(presets)
        return {"preset": names[0 if situation.n_examples < SMALL_CORPUS else min(1, len(names) - 1)]}

    def training(self, config: ModelConfig, situation: Situation) -> Values:
        values = {
            "max_tokens": 1024,
            "optimizer": "muon",
            "schedule": "cooldown",
            "rate": 0.64 / config.width,
            "clip": 1.0,
            "average_of": "best",  # by the loss: accuracy on a thousand texts is mostly noise
            "average": 3,
        }
        return values | (self._fine_tuning(config) if situation.fine_tunes else {})

    def epochs(self, situation: Situation) -> float:
        return 4.0 if situation.fine_tunes else 5.0

    def regularisation(self, epochs: float, situation: Situation) -> Values:
        return {"dropout": 0.1 if situation.fine_tunes else 0.5}

    def _fine_tuning(self, config: ModelConfig) -> Values:
        """Lower rates, the lower the nearer a layer is to the input (Howard and Ruder, 2018)."""
        layers = config.layers
        factors = {name: round(self.decay ** (len(layers) - i), 4) for i, name in enumerate(layers)}
        return {"rate": 0.064 / config.width, "rate_factors": factors}


class PretrainingDefaults(Defaults):
    """Hidden words of running text: of each example only a few are asked for, others in each epoch."""

    def training(self, config: ModelConfig, situation: Situation) -> Values:
        return super().training(config, situation) | {"max_tokens": 4096, "smoothing": 0.0}

    def regularisation(self, epochs: float, situation: Situation) -> Values:
        return {"dropout": 0.1}


class MemoryNetworkDefaults(Defaults):
    """The training of Sukhbaatar et al. (2015, section 4.2). Their loss is a sum over 32 questions, this one a mean."""

    seconds_between_validations = 5
    batch = 32  # questions
    min_batch = 1

    def model(self, presets: Mapping[str, ModelConfig], situation: Situation) -> Values:
        """A file has 1,000 questions; with more, there are several tasks."""
        names = list(presets)
        return {"preset": names[0 if situation.n_examples < _SEVERAL_TASKS else 1]}

    def training(self, config: ModelConfig, situation: Situation) -> Values:
        linear, halving, _ = self._epochs(situation)
        return {
            "max_tokens": self.batch,
            "optimizer": "sgd",
            "schedule": "halving",
            "rate": 0.01 * self.batch,
            "warmup": self._steps(situation, linear),  # half the rate, on average, during the linear start
            "halve_every": self._steps(situation, halving),
            "clip": 40 / self.batch,
            "clip_each": True,
            "smoothing": 0.0,
            "precision": "float32",  # the matrices are so small that bfloat16 takes longer
        }

    def epochs(self, situation: Situation) -> float:
        return float(self._epochs(situation)[2])

    def regularisation(self, epochs: float, situation: Situation) -> Values:
        linear, _, total = self._epochs(situation)
        return {"linear_start": self._steps(situation, linear / total * epochs)}

    def _epochs(self, situation: Situation) -> tuple[int, int, int]:
        """With a linear start, between two halvings of the rate, and in all."""
        return (20, 25, 120) if situation.n_examples < _SEVERAL_TASKS else (30, 15, 90)

    def _steps(self, situation: Situation, epochs: float) -> int:
        return max(1, round(epochs * situation.n_examples / self.batch))


class ImageDefaults(Defaults):
    """Classes of images, by trials on MNIST (docs/experiments.md)."""

    seconds_between_validations = 20
    batch = 128  # images
    min_batch = 16
    tiny_epochs = 20  # that must fit into a budget before a model ten times as slow learns more

    def model(self, presets: Mapping[str, ModelConfig], situation: Situation) -> Values:
        n_steps = situation.n_steps
        is_short = n_steps is not None and n_steps * self.batch < self.tiny_epochs * situation.n_examples
        names = list(presets)
        return {"preset": names[0 if is_short else min(1, len(names) - 1)]}

    def training(self, config: ModelConfig, situation: Situation) -> Values:
        return {
            "max_tokens": max(self.min_batch, min(self.batch, situation.n_examples // 20)),
            "optimizer": "muon",
            "schedule": "cooldown",
            "rate": (self.rate / 10 if situation.fine_tunes else self.rate) / config.width,
            "clip": 1.0,
        }

    def epochs(self, situation: Situation) -> float:
        """Of few images more, but never as many steps as of many."""
        epochs = max(20.0, min(200.0, 20 * float((50_000 / situation.n_examples) ** 0.5)))
        return epochs / 4 if situation.fine_tunes else epochs

    def regularisation(self, epochs: float, situation: Situation) -> Values:
        return {"dropout": 0.0 if epochs <= 30 else 0.1}


class SmallBatchDefaults(Defaults):
    """For architectures that keep every step of a whole memory: smaller batches, which take less of the machine's."""

    def training(self, config: ModelConfig, situation: Situation) -> Values:
        values = super().training(config, situation)
        return values | {"max_tokens": min(1024, values["max_tokens"])}


class LanguageDefaults(Defaults):
    """Language models: perplexity needs probabilities as they are, without smoothing."""

    def training(self, config: ModelConfig, situation: Situation) -> Values:
        values = super().training(config, situation)
        return values | {"max_tokens": max(256, min(1024, situation.n_tokens // 50)), "smoothing": 0.0}

    def model(self, presets: Mapping[str, ModelConfig], situation: Situation) -> Values:
        """By tokens, not by stretches of them: as many as that many pairs of sentences have."""
        return super().model(presets, situation._replace(n_examples=situation.n_tokens // 25))

    def epochs(self, situation: Situation) -> float:
        return super().epochs(situation._replace(n_examples=max(1, situation.n_tokens // 25)))
