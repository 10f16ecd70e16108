"""`regard compare`: whether one translator is better than another, and where."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.evaluate import (
    AsJson,
    Beam,
    Engine,
    Lowercase,
    Reference,
    Target,
    Tokenize,
    aligned,
    check_destination,
    escape_controls,
    outputs_of,
    warn_if_tokenized,
    write_text,
)

if TYPE_CHECKING:
    from rich.console import Console

    from regard.evaluate import Comparison, Example

_N_EXAMPLES_ON_PAGE = 25
_P_NOTE = """p: probability of such a difference if A and B were equally good, by swapping outputs between A and B
(p swap: approximate randomisation) and by resampling sentences (p draw: paired bootstrap)

"""


def compare(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="A run directory, a model directory, or a file of translations.")
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="The same, to compare with A.")],
    reference: Reference,
    source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Source sentences; required if A or B is a model.")
    ] = None,
    beam: Beam = 4,
    engine: Engine = "auto",
    target: Target = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = "13a",
    most: Annotated[int, typer.Option(metavar="N", min=0, help="Number of examples for A and for B.")] = 3,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the comparison as one HTML file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two models. Prints whether the difference is significant, scores by length, and examples."""
    from regard.evaluate import check_tokenizer, comparison_page, read_test_set
    from regard.evaluate import compare as compare_outputs

    check_tokenizer(tokenize)
    check_destination(html, [a, b, *reference, source])
    test_set = read_test_set(reference, source)
    outputs_a, outputs_b = outputs_of((a, b), test_set, beam=beam, engine=engine, target=target)
    for name, outputs in (("A", outputs_a), ("B", outputs_b)):  # if only one is tokenized, the comparison is unfair
        warn_if_tokenized(outputs, f"lines of {name}")
    comparison = compare_outputs(
        outputs_a,
        outputs_b,
        test_set.references,
        sources=test_set.sources,
        n_examples=max(most, _N_EXAMPLES_ON_PAGE),
        lowercase=lowercase,
        tokenize=tokenize,
    )
    if html is not None:
        write_text(html, comparison_page(comparison, name_a=str(a), name_b=str(b)))
    comparison = comparison.with_examples(most)
    if as_json:
        report = {"a": str(a), "b": str(b)} | comparison.to_dict()
        sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
    else:
        _show(comparison, a, b)


def _show(comparison: "Comparison", a: Path, b: Path) -> None:
    from rich.console import Console

    sys.stdout.write(f"{comparison.verdict}\n\nA  {a}\nB  {b}\n")
    sys.stdout.write(
        f"{comparison.n_sentences:,} sentences, {comparison.n_identical:,} with identical translations\n\n"
    )
    rows: list[tuple[str, ...]] = [("measure", "A", "B", "B - A", "95% interval", "p swap", "p draw", "better")]
    for change in comparison.changes:
        interval = f"{change.interval.low:+.2f} to {change.interval.high:+.2f}"
        scores = (f"{change.a:.2f}", f"{change.b:.2f}", f"{change.difference:+.2f}")
        p_values = (f"{change.p_randomization:.4f}", f"{change.p_bootstrap:.4f}")
        rows.append((change.name, *scores, interval, *p_values, change.better or "not significant"))
    sys.stdout.write(aligned(rows) + _P_NOTE)
    rows = [
        (f"{comparison.length_of} tokens", "sentences", "BLEU A", "BLEU B", "B - A", "95% interval", "chrF++ A", "B")
    ]
    for bucket in comparison.buckets:
        bleu = f"{bucket.bleu_a:.1f}", f"{bucket.bleu_b:.1f}", f"{bucket.bleu_b - bucket.bleu_a:+.1f}"
        interval = f"{bucket.interval.low:+.1f} to {bucket.interval.high:+.1f}"
        chrf = f"{bucket.chrf_a:.1f}", f"{bucket.chrf_b:.1f}"
        rows.append((bucket.label, f"{bucket.n_sentences:,}", *bleu, interval, *chrf))
    sys.stdout.write(aligned(rows))
    counts = f"A is better in {comparison.a_wins:,}, B in {comparison.b_wins:,}, equal in {comparison.ties:,}"
    sys.stdout.write(f"\nSentence by sentence (chrF++): {counts}.\n")
    console = Console(highlight=False, soft_wrap=True)
    for title, examples in (("B", comparison.better_in_b), ("A", comparison.better_in_a)):
        if examples:
            console.print(f"\nWhere {title} is better", style="bold")
        for example in examples:
            _show_example(console, example)
    sys.stdout.write("".join(f"\n{change.name}|{change.signature}" for change in comparison.changes) + "\n")


def _show_example(console: "Console", example: "Example") -> None:
    from rich.text import Text

    from regard.evaluate import mark_changes

    change = f"{example.chrf_a:.1f} → {example.chrf_b:.1f} ({example.chrf_b - example.chrf_a:+.1f})"
    console.print(f"\n  line {example.line}, chrF++ {change}", style="dim")
    unmarked = [] if example.source is None else [("source", example.source)]
    unmarked += [("reference", reference) for reference in example.references]
    for label, text in unmarked:
        console.print(Text(f"  {label:9}  {escape_controls(text)}"))
    marked = mark_changes(escape_controls(example.a), escape_controls(example.b))
    for side, colour, spans in zip(("A", "B"), ("yellow", "cyan"), marked, strict=True):
        styled = ((text, f"bold {colour}" if changed else "") for changed, text in spans)
        console.print(Text.assemble(f"  {side:9}  ", *styled))
