"""Scores of translated validation sentences: BLEU and chrF during training, and the best length penalty after it."""

from __future__ import annotations

from torch import nn

from regard.artifact import LoadedModel
from regard.data import TokenStore
from regard.decoding import DecodingOptions, Hypothesis
from regard.decoding.options import gnmt
from regard.engines.torch_engine import TorchEngine
from regard.models import Transformer
from regard.run.recipe import ModelConfig
from regard.text import TokenizerPair
from regard.training.validation import Sample, TranslationScorer, TranslationScores

N_SAMPLES = 3
LENGTH_PENALTIES = (0.6, 0.8, 1.0, 1.2, 1.4)  # on a tie the first wins: the paper's value
MIN_SENTENCES = 100  # with fewer, the differences between penalties are noise


def translation_scorer(
    store: TokenStore, tokenizers: TokenizerPair, config: ModelConfig, n_sentences: int
) -> TranslationScorer | None:
    """Translates the first sentences of the validation set greedily, and scores them against their references."""
    if n_sentences == 0:
        return None
    sources, references = _first_pairs(store, tokenizers, n_sentences)
    options = DecodingOptions(beam=1)

    def score(model: nn.Module) -> TranslationScores:
        from sacrebleu import corpus_bleu, corpus_chrf

        assert isinstance(model, Transformer)
        was_training = model.training
        model.eval()
        try:
            loaded = LoadedModel(config.architecture, model.config, model, tokenizers, {})
            ranked = TorchEngine(loaded, model.output_weight.device).translate(sources, options)
        finally:
            model.train(was_training)
        translations = [tokenizers.target.decode(hypotheses[0].ids) for hypotheses in ranked]
        samples = tuple(
            Sample(tokenizers.source.decode(source), reference, translation)
            for source, reference, translation in zip(sources[:N_SAMPLES], references, translations, strict=False)
        )
        bleu, chrf = corpus_bleu(translations, [references]), corpus_chrf(translations, [references], word_order=2)
        return TranslationScores(bleu.score, chrf.score, samples)

    return score


def best_length_penalty(loaded: LoadedModel, store: TokenStore, n_sentences: int) -> float:
    """The length penalty α with the best BLEU on the first validation sentences (section 6.1 tuned its 0.6 like this).

    One beam search serves every α: the penalty hardly changes which hypotheses are found, only their ranking.
    """
    from sacrebleu import corpus_bleu

    sources, references = _first_pairs(store, loaded.tokenizers, n_sentences)
    if len(sources) < MIN_SENTENCES:
        return LENGTH_PENALTIES[0]
    ranked = TorchEngine(loaded).translate(sources, DecodingOptions(n_best=DecodingOptions().beam))

    def bleu(alpha: float) -> float:
        best = [max(hypotheses, key=lambda hypothesis: _score(hypothesis, alpha)) for hypotheses in ranked]
        translations = [loaded.tokenizers.target.decode(hypothesis.ids) for hypothesis in best]
        return float(corpus_bleu(translations, [references]).score)

    return max(LENGTH_PENALTIES, key=bleu)


def _first_pairs(store: TokenStore, tokenizers: TokenizerPair, n: int) -> tuple[list[list[int]], list[str]]:
    """The ids of the first n source sentences, and the text of their references."""
    pairs = [store.pair(number) for number in range(min(n, len(store)))]
    references = [tokenizers.target.decode(target.tolist()) for _, target in pairs]
    return [source.tolist() for source, _ in pairs], references


def _score(hypothesis: Hypothesis, alpha: float) -> float:
    return sum(hypothesis.log_probs) / gnmt(len(hypothesis.log_probs), alpha)
