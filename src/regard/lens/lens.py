"""Lens: looks inside a trained model."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from regard.artifact import LoadedModel, load_model, max_length, search_options
from regard.decoding import DecodingOptions, Hypothesis
from regard.decoding.beam import BeamStep
from regard.durable import read_regular_file
from regard.engines.alignment_head import alignment_head
from regard.errors import ArtifactError, UserError
from regard.lens.ablate import ablate, check_interventions, possible_interventions
from regard.lens.anatomy import all_heads
from regard.lens.beam_tree import build_tree, output_ids
from regard.lens.before_after import Change, ScoredTranslation
from regard.lens.dependence import measure_dependence
from regard.lens.heads import HeadsTable, ProgressCallback, measure_heads
from regard.lens.interventions import UNCHANGED, Head, Interventions
from regard.lens.look import Look, Target, output_steps
from regard.lens.look_json import ArrayFormat, count_numbers
from regard.lens.pairs import EncodedPairs
from regard.lens.projection import projection
from regard.lens.reach import measure_reach
from regard.lens.search import search, start_search
from regard.lens.words import TokenizedText
from regard.models import TranslationModel, model_sites
from regard.nn import Trace
from regard.text import normalise

_MAX_RECIPE_BYTES = 1_000_000


class Lens:
    """A loaded model to inspect. Thread-safe, because it is never modified."""

    def __init__(self, loaded: LoadedModel, name: str = "model", label_smoothing: float | None = None) -> None:
        self.loaded = loaded
        self._model = loaded.model.eval()
        self._source, self._target = loaded.tokenizers.source, loaded.tokenizers.target
        self._begin_id, self._end_id = self._target.bos_id, self._target.eos_id
        self._description = _describe(loaded, name, label_smoothing)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load the model of a run, or a model directory."""
        loaded = load_model(path)
        resolved = Path(path).resolve()
        run = resolved.parent if resolved.name == "model" else resolved
        return cls(loaded, run.name, _label_smoothing(run / "recipe.toml"))

    @torch.inference_mode()
    def look(
        self,
        text: str,
        translation: str | None = None,
        *,
        interventions: Interventions = UNCHANGED,
        beam: int = 4,
        target: str | None = None,
        dependence: bool = False,
        reach: bool = False,
    ) -> Look:
        """Translate one sentence, or use the given translation, and record every intermediate value.

        `target` is the target language, if the model has several. `dependence` also measures how much each output
        depends on each source word, `reach` after how many layers each position depends on each token.
        """
        ids = self._source_ids(text, target)
        given = None if translation is None else self._target_ids(translation)
        check_interventions(interventions, self._model)
        model = ablate(self._model, interventions, len(ids) + 1)
        beam_steps: list[BeamStep] = []
        hypothesis = self._search(model, ids, beam, interventions, beam_steps) if given is None else None
        outputs = output_ids(hypothesis, self._end_id) if hypothesis is not None else [*(given or []), self._end_id]
        source = TokenizedText.of(self._source, [*ids, self._end_id])
        input_ids, trace = [self._begin_id, *outputs[:-1]], Trace()
        logits = model(torch.tensor([source.ids]), torch.tensor([input_ids]), trace)[0]
        inputs = TokenizedText.of(self._target, input_ids)
        translated = TokenizedText.of(self._target, outputs)
        change = None
        if interventions:
            log_probs = hypothesis.log_probs if hypothesis else _log_probs(logits, outputs)
            after = ScoredTranslation.of(translated, log_probs)
            given_outputs = outputs if hypothesis is None else None
            change = self._change(model, ids, after, given_outputs, beam, masked=interventions.mask)
        return Look(
            model=self._description,
            source=source,
            target=Target(translated.text, given is not None, inputs, translated),
            trace=trace,
            steps=output_steps(logits, outputs, self._target),
            beam=None if hypothesis is None else build_tree(beam_steps, hypothesis, self._target, self._options(beam)),
            interventions=interventions,
            change=change,
            dependence=measure_dependence(model, source, input_ids, outputs) if dependence else None,
            reach=measure_reach(model, source.ids, input_ids, outputs) if reach else None,
        )

    @torch.inference_mode()
    def change(self, text: str, interventions: Interventions, *, beam: int = 4, target: str | None = None) -> Change:
        """The translation of one sentence before and after an intervention, with probabilities."""
        ids = self._source_ids(text, target)
        check_interventions(interventions, self._model)
        model = ablate(self._model, interventions, len(ids) + 1)
        after = self._scored(self._search(model, ids, beam, interventions))
        return self._change(model, ids, after, None, beam, masked=interventions.mask)

    @torch.inference_mode()
    def projection(
        self, text: str, translation: str, head: Head, *, target: str | None = None, arrays: ArrayFormat = "list"
    ) -> dict[str, Any]:
        """How a head gets its queries, keys and values in this sentence: the inputs and the matrices, as JSON."""
        source = [*self._source_ids(text, target), self._end_id]
        return projection(self._model, head, source, [self._begin_id, *self._target_ids(translation)], arrays)

    def heads(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        without: bool = True,
        bleu: bool = False,
        target: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> HeadsTable:
        """Every head over sentence pairs: where it attends, and (`without`) how much worse the model is without it.

        `bleu` also translates everything without each head, which is slow. `progress(done, total)` is a callback.
        """
        usable = EncodedPairs.of(self.loaded.tokenizers, pairs, self.max_length, self._source.tag_for(target))
        return measure_heads(self.loaded, usable, without=without, bleu=bleu, progress=progress)

    def _change(
        self,
        ablated: TranslationModel,
        ids: list[int],
        after: ScoredTranslation,
        given: list[int] | None,
        beam: int,
        *,
        masked: bool,
    ) -> Change:
        """`given` are the tokens of a translation that both models have to score."""
        if given is None:
            hypothesis = self._search(self._model, ids, beam, UNCHANGED)
            outputs, before = output_ids(hypothesis, self._end_id), self._scored(hypothesis)
        else:
            outputs, before = given, self._score(self._model, ids, given)
        at_once = self._score(ablated, ids, outputs)
        in_use = at_once if masked else self._score_unmasked(ablated, ids, outputs)
        return Change(before, after, at_once, in_use)

    def _search(
        self,
        model: TranslationModel,
        ids: list[int],
        beam: int,
        interventions: Interventions,
        beam_steps: list[BeamStep] | None = None,
    ) -> Hypothesis:
        return search(
            model,
            torch.tensor([[*ids, self._end_id]]),
            self._options(beam),
            begin_id=self._begin_id,
            end_id=self._end_id,
            masked=interventions.mask,
            beam_steps=beam_steps,
        )[0]

    def _scored(self, hypothesis: Hypothesis) -> ScoredTranslation:
        outputs = TokenizedText.of(self._target, output_ids(hypothesis, self._end_id))
        return ScoredTranslation.of(outputs, hypothesis.log_probs)

    def _score(self, model: TranslationModel, ids: list[int], outputs: list[int]) -> ScoredTranslation:
        """Scores given tokens with all positions at once, as in training."""
        logits = model(torch.tensor([[*ids, self._end_id]]), torch.tensor([[self._begin_id, *outputs[:-1]]]))[0]
        return ScoredTranslation.of(TokenizedText.of(self._target, outputs), _log_probs(logits, outputs))

    def _score_unmasked(self, model: TranslationModel, ids: list[int], outputs: list[int]) -> ScoredTranslation:
        """Scores given tokens one after the other: each sees all earlier ones, which also see one another."""
        step, state = start_search(model, torch.tensor([[*ids, self._end_id]]), masked=False)
        log_probs = []
        for last, token in zip([self._begin_id, *outputs[:-1]], outputs, strict=True):
            predicted, state = step(torch.tensor([last]), state)
            log_probs.append(float(predicted[0, token]))
        return ScoredTranslation.of(TokenizedText.of(self._target, outputs), log_probs)

    def _source_ids(self, text: str, target: str | None) -> list[int]:
        normalised = normalise(text)
        if not normalised:
            raise UserError("the text is blank", hint="give one sentence")
        ids = self._source.encode(normalised, tag=self._source.tag_for(target))
        self._check_length("this text", len(ids))
        return ids

    def _target_ids(self, translation: str) -> list[int]:
        normalised = normalise(translation)
        if not normalised:
            raise UserError("the given translation is blank", hint="leave it out to use the model's own translation")
        ids = self._target.encode(normalised)
        self._check_length("this translation", len(ids))
        return ids

    def _check_length(self, what: str, n_tokens: int) -> None:
        if n_tokens > self.max_length:
            raise UserError(
                f"{what} has {n_tokens} sub-words; the model takes at most {self.max_length}", hint="give one sentence"
            )

    def _options(self, beam: int) -> DecodingOptions:
        """The options that Translator uses."""
        return replace(search_options(self.loaded.facts), beam=beam)

    @property
    def all_heads(self) -> list[Head]:
        """Every attention head of the model; there may be none."""
        return all_heads(model_sites(self._model))

    def count_numbers(self, n_source: int, n_target: int) -> int:
        """The numbers in the JSON of a look at sentences of so many tokens, without their dependence."""
        return count_numbers(model_sites(self._model), n_source, n_target)

    @property
    def max_length(self) -> int:
        """The maximum number of sub-words in a sentence, as in Translator."""
        return max_length(self.loaded.facts, self.loaded.config.max_length)


def _describe(loaded: LoadedModel, name: str, label_smoothing: float | None) -> dict[str, Any]:
    """The model in the JSON of a look: name, configuration and size, and which interventions it offers."""
    config, head = loaded.config.model_dump(), alignment_head(loaded)
    if hasattr(loaded.config, "d_k"):
        config["d_k"] = loaded.config.d_k
    return config | {
        "name": name,
        "task": loaded.task,
        "architecture": loaded.architecture,
        "size": loaded.config.describe(),
        "config": config,
        "n_parameters": loaded.model.n_parameters,
        "n_src_symbols": loaded.tokenizers.source.size,
        "n_tgt_symbols": loaded.tokenizers.target.size,
        "alignment_head": None if head is None else {"layer": head[0], "head": head[1]},
        "label_smoothing": label_smoothing,  # None if unknown
        "interventions": possible_interventions(loaded.model),
    }


def _log_probs(logits: Tensor, outputs: list[int]) -> list[float]:
    """(T, V) → the log-probabilities of the given tokens."""
    log_probs: list[float] = logits.log_softmax(-1).gather(1, torch.tensor(outputs)[:, None])[:, 0].tolist()
    return log_probs


def _label_smoothing(recipe: Path) -> float | None:
    """From the recipe of the run; None for a model directory that was copied out of its run."""
    try:
        smoothing = tomllib.loads(read_regular_file(recipe, _MAX_RECIPE_BYTES).decode())["training"]["smoothing"]
    except (OSError, ArtifactError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return float(smoothing) if isinstance(smoothing, int | float) else None
