"""The page of known bugs: which clients are exposed, by the examples that show them."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any

from tests.architecture.source import ROOT
from tests.clients.ghost_table import CLIENTS, GHOSTS, RELEASES, ByRelease, by_release, versions
from tests.oracle.releases import LATEST_PATCH
from tests.reference.markdown import code, page, table

if TYPE_CHECKING:
    from pathlib import Path

DIRECTORY = ROOT / "examples" / "known_bugs"
_INTRODUCTION = """\
Each bug is a published one of Kafka or of its clients, as a test of at most 20 lines in
`examples/known_bugs`. The test runs the clients, with the default settings of each, and checks the
outcomes in this table, with kafkalite as each of these releases of Kafka. `exposed`: the bug
happens. `safe`: the client or the broker prevents it. `stops`: the client reports an error, and can
neither commit nor abort its transaction. An empty cell is not tested, or the client cannot do it; a
row of empty cells depends on the broker only.

A late request is one that its client gives up, after a lost connection or a timeout, and that the
broker handles afterwards. These outcomes are those of a real Kafka {versions} behind a proxy
that holds the request, and those of kafkalite with the fault `hold`.
`python -m tests.clients.record_ghosts` measures them again. The versions of the clients are
{clients}.

`examples/test_offset_commit_fencing.py` shows KAFKA-19779 under each rule for commits of a stale
epoch; `examples/test_epochs.py` a client with which KIP-232 is safe. The faults are described in
[Inject faults](../how-to/faults.md)."""


def known_bugs_page() -> str:
    """Return the page."""
    rows = []
    for path in sorted(DIRECTORY.glob("test_*.py")):
        bug, outcomes = read_example(path)
        ghosts = [ghost for ghost in GHOSTS if ghost.example == path.name]
        variants = {f"{bug} ({ghost.variant})": by_release(ghost) for ghost in ghosts}
        for measured in variants.values():
            _check(path.name, outcomes, measured)
        for title, by_client_and_release in (variants or {bug: outcomes}).items():
            for releases, by_client in _equal_releases(by_client_and_release):
                assert by_client.keys() <= set(CLIENTS), (path.name, by_client)
                cells = [by_client.get(client, "") for client in CLIENTS]
                rows.append((title, ", ".join(releases), *cells, code(path.name)))
    introduction = _INTRODUCTION.format(
        versions=" and ".join(LATEST_PATCH[release] for release in reversed(RELEASES)),
        clients=", ".join(f"{client} {version}" for client, version in versions().items()),
    )
    return page("Known bugs", introduction, table(("Bug", "Kafka", *CLIENTS, "Test"), rows))


def _check(name: str, shown: ByRelease, measured: ByRelease) -> None:
    """Raise AssertionError if an example has another outcome than a real Kafka."""
    for release, by_client in shown.items():
        for client, outcome in by_client.items():
            assert measured[release].get(client, outcome) == outcome, (name, release, client)


def read_example(path: Path) -> tuple[str, ByRelease]:
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


def _equal_releases(outcomes: ByRelease) -> list[tuple[list[str], dict[str, str]]]:
    """Return the outcomes by client, each with the consecutive releases that have them."""
    groups = itertools.groupby(outcomes, lambda release: outcomes[release])
    return [(list(releases), by_client) for by_client, releases in groups]
