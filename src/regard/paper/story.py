"""The story of the paper: a model that has to remember, one that can look back, and one that only looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.demo.first_run import pronoun_share
from regard.demo.street.corpus import canonical
from regard.errors import UserError
from regard.lens import Lens
from regard.paper.document import Document, Section, curves_chart, heatmap
from regard.paper.measure import measure_quality, measured
from regard.paper.rows import ARCHITECTURE_ROWS, Trainer, choose
from regard.paper.texts import PaperText
from regard.translator import Translator

ROWS = choose(ARCHITECTURE_ROWS, ("lstm", "lstm-attention", "transformer"))
# The street corpus is easy: with these values a minute or two per model is enough
STREET_VALUES: dict[str, Any] = {
    "text": {"vocabulary": 1700},
    "model": {"dropout": 0.0},
    "training": {"max_tokens": 1024, "smoothing": 0.05, "warmup": 20, "cooldown": 0.9, "translated": 50},
}
_N_EXAMPLES = 6
_MAX_PICTURE_WORDS = 14

_WHAT = {
    "lstm": "reads the source word by word into one vector of fixed size, and writes the translation from it.",
    "lstm-attention": "keeps a vector for every source word, and before each word it writes, weighs all of them.",
    "transformer": "has no recurrence: every word attends to every other, in each of its layers.",
}


def story(text: PaperText, trainer: Trainer) -> Document:
    """Trains the three models, and shows what each of them gets wrong."""
    layers = {"model": {"n_encoder_layers": 2, "n_decoder_layers": 2}}  # for the street corpus, as many as in the demo
    runs = trainer.train([*ROWS[:2], ROWS[2].with_values(layers) if text.street else ROWS[2]])
    sources, references = text.test_pairs()
    rows: dict[str, dict[str, Any]] = {}
    for row in ROWS:
        trainer.callbacks.on_progress(f"measuring {row.label}", 0, None)
        quality = measured(
            runs[row.name],
            "quality",
            partial(measure_quality, runs[row.name], sources, references),
            sources,
            references,
        )
        rows[row.name] = {"label": row.label, "short": row.short} | quality
        if text.street:
            rows[row.name]["pronouns"] = pronoun_share(quality["outputs"], text.street)
    sections = [
        _scores(rows, text),
        _by_length(rows, sources, references),
        _mistakes(rows, sources, references),
        *_pictures(runs, _picture_pairs(text, sources, references)),
    ]
    if text.street:
        sections.insert(1, _pronouns(runs, rows))
    return Document("story", "From one vector to attention: the same text, three models", sections, {"rows": rows})


def _scores(rows: Mapping[str, dict[str, Any]], text: PaperText) -> Section:
    table = [("model", "BLEU", "95%", "chrF++", "exactly right", "perplexity")]
    for row in rows.values():
        bleu, chrf, _ = row["scores"]
        interval = f"{bleu['interval']['low']:.1f}–{bleu['interval']['high']:.1f}"
        exact = f"{row['exact']:.1%}"
        table.append(
            (row["label"], f"{bleu['value']:.1f}", interval, f"{chrf['value']:.1f}", exact, f"{row['perplexity']:.2f}")
        )
    what = "\n\n".join(f"{row['label']}: {_WHAT[name]}" for name, row in rows.items())
    n = f"{next(iter(rows.values()))['n_sentences']:,} sentences of {text.test[0].name}, which no model was trained on."
    return Section(text=f"{what}\n\nMeasured on {n}", table=table)


def _pronouns(runs: Mapping[str, Path], rows: Mapping[str, dict[str, Any]]) -> Section:
    table: list[Sequence[str]] = [("model", "right pronouns", "… too tired", "… too wide")]
    for name, row in rows.items():
        with Translator.load(runs[name]) as translator:
            texts = [translation.text for translation in translator.translate([pair.source for pair in canonical()])]
        table.append((row["label"], f"{row['pronouns']:.1%}", *texts))
        row["canonical"] = texts
    text = (
        f"“{canonical()[0].source}”: what “it” is shows only in the last word, and German has to know, because the "
        "animal is “es” and the street is “sie”. The share is of such sentences in the test set; the two sentences "
        "about the animal and the street have nouns that never occur together in the training set."
    )
    return Section(title="What is “it”?", text=text, table=table)


def _by_length(rows: Mapping[str, dict[str, Any]], sources: Sequence[str], references: Sequence[str]) -> Section:
    buckets = next(iter(rows.values()))["by_length"]
    table = [("BLEU by tokens of the source", *(bucket["label"] for bucket in buckets))]
    curves = {}
    for row in rows.values():
        table.append((row["label"], *(f"{bucket['bleu']:.1f}" for bucket in row["by_length"])))
        curves[row["short"]] = [(bucket["mean_length"], bucket["bleu"]) for bucket in row["by_length"]]
    text = (
        "Without attention, everything that the decoder knows of the source passes through one vector, whatever the "
        "length. If that vector is the bottleneck, its curve falls where the others do not."
    )
    return Section(title="Long sentences", text=text, table=table, figures=[curves_chart("BLEU", curves, "token")])


def _mistakes(rows: Mapping[str, dict[str, Any]], sources: Sequence[str], references: Sequence[str]) -> Section:
    """The first sentences that some model gets right and another one wrong."""
    outputs = {row["label"]: row["outputs"] for row in rows.values()}
    differs = [
        i for i, reference in enumerate(references) if len({texts[i] == reference for texts in outputs.values()}) == 2
    ] or [i for i in range(len(references)) if len({texts[i] for texts in outputs.values()}) > 1]
    table: list[Sequence[str]] = [("", "sentence")]
    for i in differs[:_N_EXAMPLES]:
        table += [("source", sources[i]), ("reference", references[i])]
        table += [(label, "✓" if texts[i] == references[i] else texts[i]) for label, texts in outputs.items()]
    text = f"{len(differs):,} of {len(references):,} sentences are translated differently. The first of them:"
    return Section(title="What each gets wrong", text=text, table=table)


def _picture_pairs(text: PaperText, sources: Sequence[str], references: Sequence[str]) -> list[tuple[str, str]]:
    if text.street:
        return [(pair.source, pair.target) for pair in canonical()]
    short = [pair for pair in zip(sources, references, strict=True) if 4 <= len(pair[0].split()) <= _MAX_PICTURE_WORDS]
    return short[:2]


def _pictures(runs: Mapping[str, Path], pairs: Sequence[tuple[str, str]]) -> list[Section]:
    """For each sentence, side by side: attention where there is any, and what each output depends on."""
    sections = []
    for source, target in pairs:
        figures = []
        for row in ROWS:
            try:
                look = Lens.load(runs[row.name]).look(source, target, dependence=True)
            except UserError:  # the sentence is too long for the vocabulary of this model
                continue
            rows, columns = look.labels("cross")
            views = look.importance()
            for view, title in (("attention", "attention"), ("gradient", "gradients")):
                if view in views and (view == "attention" or "attention" not in views):
                    figures.append(heatmap(f"{row.label}: {title}", rows, columns, np.asarray(views[view])))
        sections.append(
            Section(
                title=f"“{source}”",
                text="Rows are the words of the translation, columns those of the source. Attention is that of the "
                "head that aligns words best. The model without attention has no such weights: its picture shows "
                "how much each output changes with each source word, by gradients.",
                figures=figures,
            )
        )
    return sections
