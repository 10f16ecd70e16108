"""All heads over a corpus, as a table and a picture."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from regard.cli.evaluate import aligned
from regard.cli.look.options import Outputs
from regard.errors import UserError
from regard.report.wording import duration

if TYPE_CHECKING:
    from regard.lens.heads import HeadsTable

_SAY_EVERY_SECONDS = 10.0
_COLUMNS = """
entropy   in nats: 0 looks at one place, more at many        distance  in words, from itself
previous, same, next   share on these words                  end       on </s>; of decoder heads: on <s>
Encoder–decoder        same is the word at the same place of the source, and distance is counted from there
accuracy, loss         change of the next symbol's, when this head is silent
"""


def look_at_heads(
    run: Path, source: Path | None, reference: Path | None, outputs: Outputs, *, target: str | None, bleu: bool
) -> None:
    """Measure every head, print the table, draw the picture."""
    if source is None or reference is None:
        raise UserError("--heads needs sentences", hint="add --source FILE --reference FILE")
    from regard.evaluate import read_test_set
    from regard.lens import Lens
    from regard.lens.plots.pictures import check_matplotlib, draw_heads_table

    if outputs.png or outputs.svg:
        check_matplotlib()
    test_set = read_test_set([reference], source)
    pairs = list(zip(test_set.sources or [], test_set.references[0], strict=True))
    lens = Lens.load(run)
    with _progress(f"measuring all heads over {len(pairs):,} sentences") as progress:
        table = lens.heads(pairs, bleu=bleu, target=target, progress=progress)
    if outputs.png or outputs.svg:
        outputs.draw(draw_heads_table(table, str(run)))
    if outputs.json is not None:
        outputs.dump(table.to_dict())
    if not outputs.to_stdout:
        _show(table)


def _show(table: "HeadsTable") -> None:
    from regard.lens.plots.pictures import NAMES

    whole = f"{table.accuracy:.1%} of the next symbols right, loss {table.loss:.3f}"
    whole += "" if table.bleu is None else f", BLEU {table.bleu:.1f} (greedy)"
    left_out = f" ({table.n_left_out:,} left out: blank, or too long)" if table.n_left_out else ""
    sys.stdout.write(f"{table.n_sentences:,} sentences{left_out}: {whole}\n\n")
    names = ("entropy", "distance", "previous", "same", "next", "end")
    rows: list[tuple[str, ...]] = []
    rows.append(("attention", "layer", "head", *names, "accuracy", "loss", "BLEU" if table.bleu is not None else ""))
    for row in table.heads:
        entropy, distance, *shares = map(float, row.statistics)
        head = (NAMES[row.head.attention], str(row.head.layer + 1), str(row.head.head + 1))
        looks = (f"{entropy:.2f}", f"{distance:.1f}", *(f"{share:.0%}" for share in shares))
        lost = (f"{-(row.accuracy_drop or 0):+.2%}", f"{row.loss_rise or 0:+.3f}")
        rows.append((*head, *looks, *lost, "" if row.bleu_drop is None else f"{-row.bleu_drop:+.1f}"))
    sys.stdout.write(aligned(rows) + _COLUMNS)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """How far it is and how long it will take, on stderr: a bar where somebody sees it, else a line now and then."""
    if not sys.stderr.isatty():
        sys.stderr.write(f"{what}\n")
        yield _plain()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain() -> Callable[[int, int], None]:
    started_at = said_at = perf_counter()

    def say(done: int, total: int) -> None:
        nonlocal said_at
        now = perf_counter()
        if now - said_at >= _SAY_EVERY_SECONDS and done < total:
            said_at = now
            left = (now - started_at) / done * (total - done)
            sys.stderr.write(f"{done / total:.0%}, {duration(left)} left\n")

    return say
