"""The page of known bugs: which clients are exposed, by the examples that show them."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any

from tests.architecture.source import ROOT
from tests.reference.markdown import code, page, table

if TYPE_CHECKING:
    from pathlib import Path

DIRECTORY = ROOT / "examples" / "known_bugs"
RELEASES = ("3.9", "4.4")
"""The releases that an example shows if its outcomes name none."""

_INTRODUCTION = """\
Each bug is a published one of Kafka or of its clients, as a test of at most 20 lines in
`examples/known_bugs`. The test runs the clients, with the default settings of each, and checks the
outcomes in this table, with kafkalite as each of these releases of Kafka. `exposed`: the bug
happens. `safe`: the client or the broker prevents it. An empty cell is not tested; a row of empty
cells depends on the broker only.

`examples/test_offset_commit_fencing.py` shows KAFKA-19779 under each rule for commits of a stale
epoch; `examples/test_epochs.py` a client with which KIP-232 is safe. The faults are described in
[Inject faults](../how-to/faults.md)."""

_CLIENTS = ("librdkafka", "aiokafka", "kafka-python")


def known_bugs_page() -> str:
    """Return the page."""
    rows = []
    for path in sorted(DIRECTORY.glob("test_*.py")):
        bug, outcomes = read_example(path)
        for releases, by_client in _equal_releases(outcomes):
            assert by_client.keys() <= set(_CLIENTS), (path.name, by_client)
            cells = [by_client.get(client, "") for client in _CLIENTS]
            rows.append((bug, ", ".join(releases), *cells, code(path.name)))
    return page("Known bugs", _INTRODUCTION, table(("Bug", "Kafka", *_CLIENTS, "Test"), rows))


def read_example(path: Path) -> tuple[str, dict[str, dict[str, str]]]:
    """Return the first line of an example, and its outcomes by release and client."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    outcomes: Any = next(
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "OUTCOMES"
    )
    text = (ast.get_docstring(tree) or "").partition("\n")[0]
    is_by_release = any(isinstance(each, dict) for each in outcomes.values())
    by_release = outcomes if is_by_release else dict.fromkeys(RELEASES, outcomes)
    return text.removesuffix("."), by_release


def _equal_releases(
    outcomes: dict[str, dict[str, str]],
) -> list[tuple[list[str], dict[str, str]]]:
    """Return the outcomes by client, each with the consecutive releases that have them."""
    groups = itertools.groupby(outcomes, lambda release: outcomes[release])
    return [(list(releases), by_client) for by_client, releases in groups]
