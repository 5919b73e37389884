"""The page of known bugs: which clients are exposed, by the examples that show them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tests.architecture.source import ROOT
from tests.reference.markdown import code, page, table

if TYPE_CHECKING:
    from pathlib import Path

DIRECTORY = ROOT / "examples" / "known_bugs"

_INTRODUCTION = """\
Each row is a published bug of Kafka or of its clients, as a test of at most 20 lines in
`examples/known_bugs`. The test runs the clients and checks the outcomes in this table, with the
default settings of each client. `exposed`: the bug happens. `safe`: the client or the broker
prevents it. An empty cell is not tested; a row of empty cells depends on the broker only.

`examples/test_offset_commit_fencing.py` shows KAFKA-19779, commits of a stale epoch, under each
rule for them; `examples/test_epochs.py` a client with which KIP-232 is safe. The faults are
described in [Inject faults](../how-to/faults.md)."""

_CLIENTS = ("librdkafka", "aiokafka", "kafka-python")


def known_bugs_page() -> str:
    """Return the page."""
    rows = []
    for path in sorted(DIRECTORY.glob("test_*.py")):
        bug, outcomes = _read(path)
        cells = [outcomes.pop(client, "") for client in _CLIENTS]
        assert not outcomes, (path.name, outcomes)
        rows.append((bug, *cells, code(path.name)))
    return page("Known bugs", _INTRODUCTION, table(("Bug", *_CLIENTS, "Test"), rows))


def _read(path: Path) -> tuple[str, dict[str, str]]:
    """Return the first line and the outcomes of an example."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    outcomes: Any = next(
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "OUTCOMES"
    )
    text = (ast.get_docstring(tree) or "").partition("\n")[0]
    return text.removesuffix("."), outcomes
