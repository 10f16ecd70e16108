"""`regard look --heads`: all heads over a corpus, as a table, picture or JSON."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from regard.cli.evaluate import aligned
from regard.cli.look.options import Outputs
from regard.errors import UserError
from regard.lens.interventions import ATTENTION_NAMES
from regard.report.wording import duration

if TYPE_CHECKING:
    from regard.lens.heads import HeadsTable

_PROGRESS_SECONDS = 10.0
_LEGEND = """
entropy          of the attention weights, in nats: 0 if the head attends to one position only
distance         mean distance of what it attends to, in words
previous … next  share of the attention on the previous, the same and the next word
end              share on </s>; for decoder heads, share on <s>
Encoder–decoder  same is the source word at the same position, and distance is counted from there
loss, accuracy   change for the next token when this head is ablated
"""


def look_at_heads(
    run: Path, source: Path | None, reference: Path | None, outputs: Outputs, *, target: str | None, bleu: bool
) -> None:
    """Measures every head, prints the table and writes the files."""
    if source is None or reference is None:
        raise UserError("--heads needs sentences", hint="add --source FILE --reference FILE")
    from regard.evaluate import read_test_set
    from regard.lens import Lens

    if outputs.png or outputs.svg:
        # fails before the work if there is no matplotlib
        from regard.lens.plots.head_importance import draw_heads_table
    test_set = read_test_set([reference], source)
    pairs = list(zip(test_set.sources or [], test_set.references[0], strict=True))
    lens = Lens.load(run)
    with _progress(f"measuring all heads over {len(pairs):,} sentences") as progress:
        table = lens.heads(pairs, bleu=bleu, target=target, progress=progress)
    if outputs.png or outputs.svg:
        outputs.draw(draw_heads_table(table, str(run)))
    if outputs.json is not None:
        outputs.write_json(table.to_dict())
    if not outputs.to_stdout:
        _print_table(table)


def _print_table(table: "HeadsTable") -> None:
    scores = f"next-token accuracy {table.accuracy:.1%}, loss {table.loss:.3f}"
    scores += "" if table.bleu is None else f", BLEU {table.bleu:.1f} (greedy)"
    left_out = f" ({table.n_left_out:,} left out: blank or too long)" if table.n_left_out else ""
    sys.stdout.write(f"{table.n_sentences:,} sentences{left_out}: {scores}\n\n")
    names = ("entropy", "distance", "previous", "same", "next", "end")
    rows: list[tuple[str, ...]] = []
    rows.append(("attention", "layer", "head", *names, "loss", "accuracy", "BLEU" if table.bleu is not None else ""))
    for row in table.heads:
        entropy, distance, *shares = map(float, row.statistics)
        head = (ATTENTION_NAMES[row.head.attention], str(row.head.layer + 1), str(row.head.head + 1))
        statistics = (f"{entropy:.2f}", f"{distance:.1f}", *(f"{share:.0%}" for share in shares))
        changes = (f"{row.loss_rise or 0:+.3f}", f"{-(row.accuracy_drop or 0):+.2%}")
        rows.append((*head, *statistics, *changes, "" if row.bleu_drop is None else f"{-row.bleu_drop:+.1f}"))
    worst = max(table.heads, key=lambda row: row.loss_rise or 0)
    most = f"\nThe loss rises most without {worst.head.title}: by {worst.loss_rise or 0:.3f}.\n"
    sys.stdout.write(aligned(rows) + _LEGEND + most)


@contextmanager
def _progress(description: str) -> Iterator[Callable[[int, int], None]]:
    """Shows progress and remaining time on stderr: a bar on a terminal, else a line every ten seconds."""
    if not sys.stderr.isatty():
        sys.stderr.write(f"{description}\n")
        yield _plain_progress()
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain_progress() -> Callable[[int, int], None]:
    started_at = reported_at = perf_counter()

    def report(n_done: int, total: int) -> None:
        nonlocal reported_at
        now = perf_counter()
        if now - reported_at >= _PROGRESS_SECONDS and n_done < total:
            reported_at = now
            remaining_seconds = (now - started_at) / n_done * (total - n_done)
            sys.stderr.write(f"{n_done / total:.0%}, {duration(remaining_seconds)} left\n")

    return report
