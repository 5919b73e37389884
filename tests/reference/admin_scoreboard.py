"""The page of admin clients: every method and option, compared with a real Kafka."""

from __future__ import annotations

from tests.conformance.scoreboard.cells import Row, stored_rows
from tests.conformance.scoreboard.clients import CLIENTS
from tests.conformance.scoreboard.differences import DIFFERENCES, EXCLUDED
from tests.reference.markdown import code, codes, page, table

_INTRODUCTION = """\
A test calls every public method of these admin clients, with every option, at a real Kafka 4.4.0
and at kafkalite. It compares the results, the errors and most error messages. Ids, times, ports,
directories and the settings of listeners are not compared. Both brokers have a listener for clients
of the controller, and receive the metrics of clients. The methods and options come from the
libraries by reflection, and the test fails if one has no row.
"""

_OUTCOMES = {
    "result": "equal",
    "error": "equal error",
    "result with errors": "equal, with errors for some entries",
}


def admin_scoreboard_page() -> str:
    """Return the page of admin clients."""
    parts: list[str] = []
    for client in CLIENTS:
        rows = stored_rows(client.name)
        methods = {name for row in rows for name in row.methods.split("; ") if name}
        equal = sum(row.name not in DIFFERENCES[client.name] for row in rows)
        parts += [
            f"## {client.title}",
            f"{len(methods)} methods; {equal} of {len(rows)} calls are equal.",
        ]
        if EXCLUDED[client.name]:
            excluded = "; ".join(
                f"{code(name)}: {reason}" for name, reason in EXCLUDED[client.name].items()
            )
            parts.append(f"Without a call: {excluded}.")
        parts.append(
            table(
                ("Call", "Methods", "Options", "Comparison"),
                [_cells(client.name, row) for row in rows],
            )
        )
    return page("Admin clients", _INTRODUCTION.rstrip(), *parts)


def _cells(client: str, row: Row) -> tuple[str, str, str, str]:
    listed = DIFFERENCES[client].get(row.name)
    comparison = (
        _OUTCOMES[row.outcome]
        if listed is None
        else f"different since Kafka {listed.since}: {listed.reason}"
    )
    methods = codes(name for name in row.methods.split("; ") if name)
    options = codes(name for name in row.options.split(", ") if name)
    return row.name, methods, options, comparison
