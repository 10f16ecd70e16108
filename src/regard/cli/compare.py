"""`regard compare`: is B better than A, and where?"""

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
    outputs_of,
    visible,
    warn_if_tokenized,
)

if TYPE_CHECKING:
    from rich.console import Console

    from regard.evaluate import Comparison, Example

_ON_THE_PAGE = 25
_WHAT_P_IS = """p: how often chance alone gives such a difference, by swapping outputs between A and B
(approximate randomisation), or by drawing sentences again (paired bootstrap)

"""


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run, a model directory, or a file of translations.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The other one.")],
    reference: Reference,
    source: Annotated[Path | None, typer.Option(metavar="FILE", help="What was, or is to be, translated.")] = None,
    beam: Beam = 4,
    engine: Engine = "auto",
    target: Target = None,
    lowercase: Lowercase = False,
    tokenize: Tokenize = "13a",
    most: Annotated[int, typer.Option(metavar="N", min=0, help="Sentences to show where each side is better.")] = 3,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the comparison as one HTML file, too.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two translators: differences and their significance, by length, and the sentences that differ most."""
    from regard.evaluate import check_tokenizer, read_test_set
    from regard.evaluate import compare as compare_outputs

    check_tokenizer(tokenize)
    check_destination(html, [a, b, *reference, source])
    test_set = read_test_set(reference, source)
    outputs_a, outputs_b = outputs_of((a, b), test_set, beam=beam, engine=engine, target=target)
    for name, outputs in (("A", outputs_a), ("B", outputs_b)):  # one alone would be judged by its spaces
        warn_if_tokenized(outputs, f"lines of {name}")
    comparison = compare_outputs(
        outputs_a,
        outputs_b,
        test_set.references,
        sources=test_set.sources,
        n_examples=max(most, _ON_THE_PAGE),
        lowercase=lowercase,
        tokenize=tokenize,
    )
    if html is not None:
        _write_page(html, comparison, a, b)
    comparison = comparison.with_examples(most)
    if as_json:
        report = {"a": str(a), "b": str(b)} | comparison.to_dict()
        sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
    else:
        _show(comparison, a, b)


def _write_page(path: Path, comparison: "Comparison", a: Path, b: Path) -> None:
    from regard.durable import write_file
    from regard.evaluate import comparison_page

    write_file(path, comparison_page(comparison, name_a=str(a), name_b=str(b)).encode())
    sys.stderr.write(f"wrote {path}\n")


def _show(comparison: "Comparison", a: Path, b: Path) -> None:
    from rich.console import Console

    sys.stdout.write(f"{comparison.verdict}\n\nA  {a}\nB  {b}\n")
    sys.stdout.write(f"{comparison.n_sentences:,} sentences, {comparison.n_identical:,} translated alike\n\n")
    rows: list[tuple[str, ...]] = [("measure", "A", "B", "B - A", "95% interval", "p swap", "p draw", "better")]
    for one in comparison.changes:
        interval = f"{one.interval.low:+.2f} to {one.interval.high:+.2f}"
        chances = (f"{one.p_randomization:.4f}", f"{one.p_bootstrap:.4f}")
        better = one.better or "not clear"
        rows.append((one.name, f"{one.a:.2f}", f"{one.b:.2f}", f"{one.difference:+.2f}", interval, *chances, better))
    sys.stdout.write(aligned(rows) + _WHAT_P_IS)
    rows = [("tokens", "sentences", "BLEU A", "BLEU B", "chrF++ A", "chrF++ B", "")]
    for bucket in comparison.buckets:
        values = (f"{value:.1f}" for value in (bucket.bleu_a, bucket.bleu_b, bucket.chrf_a, bucket.chrf_b))
        rows.append((bucket.label, f"{bucket.n_sentences:,}", *values, ""))
    sys.stdout.write(aligned(rows))
    counts = f"A is better in {comparison.a_wins:,}, B in {comparison.b_wins:,}, equal in {comparison.ties:,}"
    sys.stdout.write(f"\nSentence by sentence (chrF++): {counts}.\n")
    console = Console(highlight=False, soft_wrap=True)
    for title, examples in (("B", comparison.better_in_b), ("A", comparison.better_in_a)):
        if examples:
            console.print(f"\nWhere {title} is better", style="bold")
        for example in examples:
            _show_example(console, example)
    sys.stdout.write("".join(f"\n{one.name}|{one.signature}" for one in comparison.changes) + "\n")


def _show_example(console: "Console", example: "Example") -> None:
    from rich.text import Text

    from regard.evaluate import mark_changes

    change = f"{example.chrf_a:.1f} → {example.chrf_b:.1f} ({example.chrf_b - example.chrf_a:+.1f})"
    console.print(f"\n  line {example.line}, chrF++ {change}", style="dim")
    plain = [] if example.source is None else [("source", example.source)]
    plain += [("reference", reference) for reference in example.references]
    for label, text in plain:
        console.print(Text(f"  {label:9}  {visible(text)}"))
    marked = zip(("A", "B"), ("yellow", "cyan"), mark_changes(visible(example.a), visible(example.b)), strict=True)
    for side, colour, pieces in marked:
        styled = ((text, f"bold {colour}" if changed else "") for changed, text in pieces)
        console.print(Text.assemble(f"  {side:9}  ", *styled))
