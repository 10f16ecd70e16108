"""Scores of translated validation sentences: BLEU and chrF during training, and the best length penalty after it."""

from __future__ import annotations

import torch

from regard.artifact import LoadedModel
from regard.data import TokenStore
from regard.decoding import DecodingOptions, Hypothesis
from regard.decoding.options import gnmt
from regard.engines.torch_engine import TorchEngine
from regard.text import TokenizerPair
from regard.training import Validation

N_SAMPLES = 3
LENGTH_PENALTIES = (0.6, 0.8, 1.0, 1.2, 1.4)  # on a tie the first wins: the paper's value
MIN_SENTENCES = 100  # with fewer, the differences between penalties are noise


def score_translations(loaded: LoadedModel, store: TokenStore, n_sentences: int, device: torch.device) -> Validation:
    """Translates the first sentences of the validation set greedily, and scores them against their references."""
    from sacrebleu import corpus_bleu, corpus_chrf

    tokenizers = loaded.tokenizers
    sources, references = first_pairs(store, tokenizers, n_sentences)
    ranked = TorchEngine(loaded, device).translate(sources, DecodingOptions(beam=1))
    translations = [tokenizers.target.decode(hypotheses[0].ids) for hypotheses in ranked]
    samples = tuple(
        {"source": tokenizers.source.decode(source), "reference": reference, "translation": translation}
        for source, reference, translation in zip(sources[:N_SAMPLES], references, translations, strict=False)
    )
    bleu, chrf = corpus_bleu(translations, [references]), corpus_chrf(translations, [references], word_order=2)
    return Validation({"bleu": bleu.score, "chrf": chrf.score}, samples)


def best_length_penalty(loaded: LoadedModel, store: TokenStore, n_sentences: int, device: torch.device) -> float:
    """The length penalty α with the best BLEU on the first validation sentences (section 6.1 tuned its 0.6 like this).

    One beam search serves every α: the penalty hardly changes which hypotheses are found, only their ranking.
    """
    from sacrebleu import corpus_bleu

    sources, references = first_pairs(store, loaded.tokenizers, n_sentences)
    if len(sources) < MIN_SENTENCES:
        return LENGTH_PENALTIES[0]
    ranked = TorchEngine(loaded, device).translate(sources, DecodingOptions(n_best=DecodingOptions().beam))

    def bleu(alpha: float) -> float:
        best = [max(hypotheses, key=lambda hypothesis: _score(hypothesis, alpha)) for hypotheses in ranked]
        translations = [loaded.tokenizers.target.decode(hypothesis.ids) for hypothesis in best]
        return float(corpus_bleu(translations, [references]).score)

    return max(LENGTH_PENALTIES, key=bleu)


def first_pairs(store: TokenStore, tokenizers: TokenizerPair, n: int) -> tuple[list[list[int]], list[str]]:
    """The ids of the first n source sentences, and the text of their references."""
    pairs = [store.pair(number) for number in range(min(n, len(store)))]
    references = [tokenizers.target.decode(target.tolist()) for _, target in pairs]
    return [source.tolist() for source, _ in pairs], references


def _score(hypothesis: Hypothesis, alpha: float) -> float:
    return sum(hypothesis.log_probs) / gnmt(len(hypothesis.log_probs), alpha)
