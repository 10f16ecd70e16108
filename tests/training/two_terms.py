"""A model whose loss has two terms. Importing this module registers it, as the worker process does.

Shapes: B batch, F features, T tags, D width
"""

from torch import nn

from regard.data import Batch
from regard.models import ARCHITECTURES, Architecture, Model, ModelConfig, Term
from regard.nn import Dropout, Trace

N_FEATURES, N_TAGS, WIDTH, SCALE = 5, 3, 8, 0.25


class TwoTermsConfig(ModelConfig, frozen=True, extra="forbid"):
    @property
    def width(self) -> int:
        return WIDTH

    def describe(self) -> str:
        return "two layers"


class TwoTerms(Model):
    """One class per example, and some tags; each term has weights that the other does not have."""

    def __init__(self, config: TwoTermsConfig, n_classes: int) -> None:
        super().__init__()
        self.config: TwoTermsConfig = config
        self.shared = nn.Linear(N_FEATURES, WIDTH)
        self.dropout = Dropout(config.dropout)
        self.classes = nn.Linear(WIDTH, n_classes)
        self.spread = nn.Linear(WIDTH, WIDTH * N_TAGS)
        self.tags = nn.Linear(WIDTH, 4, bias=False)

    def terms(self, batch: Batch, trace: Trace | None = None) -> tuple[Term, ...]:
        states = self.dropout(self.shared(batch.inputs[0]).tanh())  # (B, D)
        tag_states = self.spread(states).tanh().view(-1, WIDTH, N_TAGS).transpose(1, 2)  # (B, T, D)
        return (
            Term("class", states, self.classes.weight, self.classes.bias, batch.targets[0]),
            Term("tags", tag_states, self.tags.weight, None, batch.targets[1], scale=SCALE),
        )


ARCHITECTURES["two-terms"] = Architecture({"toy": TwoTerms}, TwoTermsConfig, {"tiny": TwoTermsConfig()})
