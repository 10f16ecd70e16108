"""Translating some validation sentences during training: BLEU, chrF, and a few to look at."""

from __future__ import annotations

from torch import nn

from regard.artifact import LoadedModel
from regard.data import TokenStore
from regard.decoding import DecodingOptions
from regard.engines.torch_engine import TorchEngine
from regard.models import Transformer
from regard.run.recipe import ModelConfig
from regard.text import TokenizerPair
from regard.training.validation import Sample, Translate, Translated

N_SAMPLES = 3


def judge(store: TokenStore, tokenizers: TokenizerPair, model: ModelConfig, n_sentences: int) -> Translate | None:
    """Greedy translations of the first sentences of the validation set, against their references."""
    if n_sentences == 0:
        return None
    pairs = [store.pair(number) for number in range(min(n_sentences, len(store)))]
    sources = [[int(one) for one in source] for source, _ in pairs]
    references = [tokenizers.target.decode(target) for _, target in pairs]  # type: ignore[arg-type]
    options = DecodingOptions(beam=1)

    def translate(network: nn.Module) -> Translated:
        from sacrebleu import corpus_bleu, corpus_chrf

        assert isinstance(network, Transformer)
        was_training = network.training
        network.eval()
        try:
            loaded = LoadedModel(model.architecture, network.config, network, tokenizers, {})
            found = TorchEngine(loaded, network.output_weight.device).translate(sources, options)
        finally:
            network.train(was_training)
        outputs = [tokenizers.target.decode(ranked[0].ids) for ranked in found]
        samples = tuple(
            Sample(tokenizers.source.decode(source), reference, output)
            for source, reference, output in zip(sources[:N_SAMPLES], references, outputs, strict=False)
        )
        bleu, chrf = corpus_bleu(outputs, [references]), corpus_chrf(outputs, [references], word_order=2)
        return Translated(bleu.score, chrf.score, samples)

    return translate
