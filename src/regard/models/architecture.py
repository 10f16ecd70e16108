"""The registry of architectures, and how a model is built from plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.models.base import Model
from regard.models.bert import PRESETS as BERT_PRESETS
from regard.models.bert import Bert, BertClassifier, BertConfig
from regard.models.bytenet import PRESETS as BYTENET_PRESETS
from regard.models.bytenet import ByteNet, ByteNetConfig
from regard.models.config import ModelConfig
from regard.models.convs2s import PRESETS as CONVS2S_PRESETS
from regard.models.convs2s import ConvS2S, ConvS2SConfig
from regard.models.defaults import (
    ConvolutionalDefaults,
    Defaults,
    ImageDefaults,
    MemoryNetworkDefaults,
    PreNormDefaults,
    SmallBatchDefaults,
)
from regard.models.electra import PRESETS as ELECTRA_PRESETS
from regard.models.electra import Electra, ElectraClassifier, ElectraConfig
from regard.models.encoder import PRESETS as ENCODER_PRESETS
from regard.models.encoder import EncoderClassifier, EncoderConfig
from regard.models.language import PRESETS as LANGUAGE_PRESETS
from regard.models.language import Language, LanguageConfig
from regard.models.memory_network import PRESETS as MEMORY_NETWORK_PRESETS
from regard.models.memory_network import MemoryNetwork, MemoryNetworkConfig
from regard.models.neural_gpu import PRESETS as NEURAL_GPU_PRESETS
from regard.models.neural_gpu import NeuralGPU, NeuralGPUConfig
from regard.models.recurrent import (
    GRU,
    LSTM,
    RNN,
    GRUClassifier,
    GRULanguageModel,
    LSTMClassifier,
    LSTMLanguageModel,
    RecurrentConfig,
    RNNClassifier,
    RNNLanguageModel,
)
from regard.models.recurrent import PRESETS as RECURRENT_PRESETS
from regard.models.transformer import PRESETS, Transformer, TransformerConfig
from regard.models.transformer_xl import PRESETS as TRANSFORMER_XL_PRESETS
from regard.models.transformer_xl import TransformerXL, TransformerXLConfig
from regard.models.vit import PRESETS as VIT_PRESETS
from regard.models.vit import Vit, VitConfig
from regard.models.xlnet import PRESETS as XLNET_PRESETS
from regard.models.xlnet import XLNet, XLNetClassifier, XLNetConfig
from regard.nn.outline import without_values

Sizes = Mapping[str, int]  # sizes that come from the data, by the names of the model's arguments: n_src_symbols, pad_id


class Architecture(NamedTuple):
    """Everything that training needs to know about an architecture."""

    models: Mapping[str, type[Model]]  # by task; called with the configuration, and the sizes as keywords
    config: type[ModelConfig]
    presets: Mapping[str, ModelConfig]  # smallest first: a budget times the smallest
    defaults: Defaults = Defaults()

    def sizes_of(self, config: ModelConfig) -> dict[str, Any]:
        """The values that distinguish the presets, except dropout."""
        fields = set[str]().union(*(preset.model_fields_set for preset in self.presets.values())) - {"dropout"}
        return config.model_dump(include=fields)

    def preset_of(self, config: ModelConfig) -> str | None:
        """The name of the preset with the sizes of this configuration."""
        sizes = self.sizes_of(config)
        return next((name for name, preset in self.presets.items() if self.sizes_of(preset) == sizes), None)


# To add an architecture, add a line; read when a recipe is validated or a model is loaded, not at import.
ARCHITECTURES: dict[str, Architecture] = {
    "transformer": Architecture({"translation": Transformer}, TransformerConfig, PRESETS, PreNormDefaults()),
    "encoder": Architecture({"classification": EncoderClassifier}, EncoderConfig, ENCODER_PRESETS),
    "bert": Architecture({"pretraining": Bert, "classification": BertClassifier}, BertConfig, BERT_PRESETS),
    "electra": Architecture(
        {"pretraining": Electra, "classification": ElectraClassifier}, ElectraConfig, ELECTRA_PRESETS
    ),
    "xlnet": Architecture({"pretraining": XLNet, "classification": XLNetClassifier}, XLNetConfig, XLNET_PRESETS),
    "rnn": Architecture(
        {"translation": RNN, "classification": RNNClassifier, "language": RNNLanguageModel},
        RecurrentConfig,
        RECURRENT_PRESETS["rnn"],
    ),
    "lstm": Architecture(
        {"translation": LSTM, "classification": LSTMClassifier, "language": LSTMLanguageModel},
        RecurrentConfig,
        RECURRENT_PRESETS["lstm"],
    ),
    "gru": Architecture(
        {"translation": GRU, "classification": GRUClassifier, "language": GRULanguageModel},
        RecurrentConfig,
        RECURRENT_PRESETS["gru"],
    ),
    "language": Architecture({"language": Language}, LanguageConfig, LANGUAGE_PRESETS),
    "transformer-xl": Architecture({"language": TransformerXL}, TransformerXLConfig, TRANSFORMER_XL_PRESETS),
    "convs2s": Architecture({"translation": ConvS2S}, ConvS2SConfig, CONVS2S_PRESETS, ConvolutionalDefaults()),
    "bytenet": Architecture({"translation": ByteNet}, ByteNetConfig, BYTENET_PRESETS, ConvolutionalDefaults()),
    "neural-gpu": Architecture({"translation": NeuralGPU}, NeuralGPUConfig, NEURAL_GPU_PRESETS, SmallBatchDefaults()),
    "memory-network": Architecture(
        {"answering": MemoryNetwork}, MemoryNetworkConfig, MEMORY_NETWORK_PRESETS, MemoryNetworkDefaults()
    ),
    "vit": Architecture({"images": Vit}, VitConfig, VIT_PRESETS, ImageDefaults()),
}


@dataclass(frozen=True)
class ModelSpec:
    """What a model is built from: in the artifact and in a second process, where tasks are not known."""

    task: str
    architecture: str
    config: ModelConfig
    sizes: Sizes

    def build(self) -> Model:
        """A model with new weights."""
        return ARCHITECTURES[self.architecture].models[self.task](self.config, **self.sizes)

    def outline(self) -> Model:
        """The model without values or memory: the names and shapes of its weights, and its cost."""
        with without_values():
            return self.build()
