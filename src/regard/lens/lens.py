"""The way in: a trained model, and what one can ask about its inside."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from regard.artifact import LoadedModel, load_model, max_length, search_options
from regard.decoding import DecodingOptions, Hypothesis
from regard.decoding.beam import BeamStep
from regard.durable import read_regular_file
from regard.engines.alignment_head import alignment_head
from regard.errors import ArtifactError, UserError
from regard.lens.ablate import altered
from regard.lens.beam_tree import output_ids, tree_of
from regard.lens.before_after import Change, Version, version_of
from regard.lens.heads import HeadsTable, Progress, measure_heads
from regard.lens.interventions import UNCHANGED, Interventions, check_interventions
from regard.lens.look import Look, Model, Target, steps_of
from regard.lens.pairs import Pairs
from regard.lens.search import find
from regard.lens.words import side_of
from regard.models.transformer import Transformer
from regard.nn import Trace
from regard.text import Tokenizer, normalise

_MAX_RECIPE_BYTES = 1_000_000


class Lens:
    """A loaded model to look into. Thread-safe: nothing in it changes."""

    def __init__(self, loaded: LoadedModel, name: str = "model", label_smoothing: float | None = None) -> None:
        self.loaded = loaded
        self._model = loaded.model.eval()
        self._about = Model(
            name=name,
            config=loaded.config,
            n_parameters=loaded.model.n_parameters,
            n_src_symbols=loaded.tokenizers.source.size,
            n_tgt_symbols=loaded.tokenizers.target.size,
            alignment_head=alignment_head(loaded),
            label_smoothing=label_smoothing,
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The model of a run, or of a model directory."""
        loaded = load_model(path)
        whole = Path(path).resolve()
        run = whole.parent if whole.name == "model" else whole
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
    ) -> Look:
        """Translate one sentence, or take the given translation, and keep every number on the way.

        `target` is the language, where the model has several.
        """
        ids = self._source_ids(text, target)
        given = None if translation is None else self._target_ids(translation)
        check_interventions(interventions, self.loaded.config)
        changed = altered(self._model, interventions, len(ids) + 1)
        beam_steps: list[BeamStep] = []
        found = self._find(changed, ids, beam, interventions, beam_steps) if given is None else None
        outputs = output_ids(found, self._end_id) if found is not None else [*(given or []), self._end_id]
        src, tgt_in = torch.tensor([[*ids, self._end_id]]), torch.tensor([[self._begin_id, *outputs[:-1]]])
        trace = Trace()
        logits = changed(src, tgt_in, trace)[0]
        source, target_side = side_of(self._source, src[0].tolist()), side_of(self._target, outputs)
        change = None
        if interventions:
            after = version_of(target_side, found.log_probs if found else _chosen(logits, outputs))
            change = self._change(changed, ids, after, outputs if found is None else None, beam)
        return Look(
            model=self._about,
            source=source,
            target=Target(target_side.text, given is not None, side_of(self._target, tgt_in[0].tolist()), target_side),
            trace=trace,
            steps=steps_of(logits, outputs, self._target),
            beam=None if found is None else tree_of(beam_steps, found, self._target, self._options(beam)),
            interventions=interventions,
            change=change,
        )

    @torch.inference_mode()
    def change(self, text: str, interventions: Interventions, *, beam: int = 4, target: str | None = None) -> Change:
        """The translation of one sentence before and after an intervention, with probabilities."""
        ids = self._source_ids(text, target)
        check_interventions(interventions, self.loaded.config)
        changed = altered(self._model, interventions, len(ids) + 1)
        return self._change(changed, ids, self._version(self._find(changed, ids, beam, interventions)), None, beam)

    def heads(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        without: bool = True,
        bleu: bool = False,
        target: str | None = None,
        progress: Progress | None = None,
    ) -> HeadsTable:
        """Every head over pairs of sentences: where it looks, and (`without`) how much is lost when it is off.

        `bleu` also translates everything anew without each head, which is slow. `progress(done, total)` is told
        how far it is.
        """
        known = Pairs.of(self.loaded.tokenizers, pairs, self.max_length, self._source.tag_for(target))
        return measure_heads(self.loaded, known, without=without, bleu=bleu, progress=progress)

    def _change(
        self, changed: Transformer, ids: list[int], after: Version, given: list[int] | None, beam: int
    ) -> Change:
        """`given` are the symbols of a translation that both models have to take."""
        if given is None:
            found = self._find(self._model, ids, beam, UNCHANGED)
            outputs, before = output_ids(found, self._end_id), self._version(found)
        else:
            outputs, before = given, self._read(self._model, ids, given)
        return Change(before, after, self._read(changed, ids, outputs))

    def _find(
        self,
        model: Transformer,
        ids: list[int],
        beam: int,
        interventions: Interventions,
        beam_steps: list[BeamStep] | None = None,
    ) -> Hypothesis:
        src = torch.tensor([[*ids, self._end_id]])
        return find(
            model,
            src,
            [len(ids)],
            self._options(beam),
            begin_id=self._begin_id,
            end_id=self._end_id,
            masked=interventions.mask,
            beam_steps=beam_steps,
        )[0]

    def _version(self, found: Hypothesis) -> Version:
        return version_of(side_of(self._target, output_ids(found, self._end_id)), found.log_probs)

    def _read(self, model: Transformer, ids: list[int], outputs: list[int]) -> Version:
        """Given symbols under a model, all positions at once, as in training."""
        logits = model(torch.tensor([[*ids, self._end_id]]), torch.tensor([[self._begin_id, *outputs[:-1]]]))[0]
        return version_of(side_of(self._target, outputs), _chosen(logits, outputs))

    def _source_ids(self, text: str, target: str | None) -> list[int]:
        clean = normalise(text)
        if not clean:
            raise UserError("there is no text to look at", hint="give one sentence")
        ids = self._source.encode(clean, tag=self._source.tag_for(target))
        self._check_length("this text", len(ids))
        return ids

    def _target_ids(self, translation: str) -> list[int]:
        clean = normalise(translation)
        if not clean:
            raise UserError("the given translation is blank", hint="leave it out, and the model makes one")
        ids = self._target.encode(clean)
        self._check_length("this translation", len(ids))
        return ids

    def _check_length(self, what: str, n_symbols: int) -> None:
        longest = self.max_length
        if n_symbols > longest:
            raise UserError(f"{what} has {n_symbols} pieces; the model takes {longest}", hint="give one sentence")

    def _options(self, beam: int) -> DecodingOptions:
        """As the Translator searches."""
        return replace(search_options(self.loaded.facts), beam=beam)

    @property
    def max_length(self) -> int:
        """The most pieces that a sentence may have, as for the Translator."""
        return max_length(self.loaded.facts, self.loaded.config.model_dump())

    @property
    def _source(self) -> Tokenizer:
        return self.loaded.tokenizers.source

    @property
    def _target(self) -> Tokenizer:
        return self.loaded.tokenizers.target

    @property
    def _begin_id(self) -> int:
        return self._target.bos_id

    @property
    def _end_id(self) -> int:
        return self._target.eos_id


def _chosen(logits: Tensor, outputs: list[int]) -> list[float]:
    """(T, V) → the log-probabilities of the given symbols."""
    log_probs: list[float] = logits.log_softmax(-1).gather(1, torch.tensor(outputs)[:, None])[:, 0].tolist()
    return log_probs


def _label_smoothing(recipe: Path) -> float | None:
    """What a run was trained with; a model that was copied out of its run does not know."""
    try:
        said = tomllib.loads(read_regular_file(recipe, _MAX_RECIPE_BYTES).decode())["training"]["smoothing"]
    except (OSError, ArtifactError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return float(said) if isinstance(said, int | float) else None
