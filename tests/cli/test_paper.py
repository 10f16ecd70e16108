"""Options of `regard paper` that do not go together, before anything is written."""

from pathlib import Path
from typing import Any

import pytest

from regard.cli.paper import distance, story, table2, table3
from regard.errors import UserError


@pytest.mark.parametrize(
    ("command", "options", "problem"),
    [
        (table2, {"equal": "time", "steps": 5}, "--equal time needs --budget"),
        (table2, {"equal": "steps", "budget": "5m"}, "--equal steps needs --steps"),
        (table3, {"budget": "5m", "steps": 5}, "--budget and --steps exclude each other"),
        (story, {"source": Path("a.en")}, "--source and --target go together"),
        (story, {"test_source": Path("a.en"), "test_target": Path("a.de")}, "needs --source and --target"),
        (distance, {"budget": "soon"}, "'soon' is not a duration"),
        (table2, {"only": ["rnn"], "equal": "steps", "steps": 1}, "there is no row 'rnn'; hint: the rows are lstm"),
    ],
)
def test_wrong_options_are_refused(command: Any, options: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=problem):
        command(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()
