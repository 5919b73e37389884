"""Generated parts of pages that are otherwise written by hand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkalite.apis.table import TABLE
from kafkalite.config.unused_keys import NO_EFFECT
from kafkalite.protocol.api_keys import ApiKey
from tests.clients.security_matrix import CELLS, CLIENTS, MECHANISMS, SASL_FAULTS, ClientRow, Fault
from tests.reference.markdown import code, codes, sentence, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_BETWEEN_BROKERS = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
}
"""APIs of Kafka 4.4 that clients do not use."""

_API_COUNT = re.compile(r"(\| Client-visible APIs, of 74 in Kafka 4\.4 \| )\d+(?= \|)")
_NO_EFFECT_TABLE = re.compile(
    r"(<!-- no-effect-table -->\n).*?(?=<!-- /no-effect-table -->)", re.DOTALL
)
_CLIENT_TABLES = re.compile(r"(<!-- client-tables -->\n).*?(?=<!-- /client-tables -->)", re.DOTALL)


def update_api_count(text: str) -> str:
    """Return the README with the number of served APIs that clients see."""
    served = sum(key not in _BETWEEN_BROKERS for key in TABLE)
    return _replace(_API_COUNT, text, str(served))


def update_no_effect_table(text: str) -> str:
    """Return the page of defaults with the table of configurations without effect."""
    rows = [(sentence(reason), codes(keys.split())) for reason, keys in NO_EFFECT.items()]
    return _replace(_NO_EFFECT_TABLE, text, table(("Reason", "Settings"), rows) + "\n")


def update_client_tables(text: str) -> str:
    """Return the page of security with the tables of clients and their errors."""
    headings = ("Client", *MECHANISMS, "No SASL", "Client certificate")
    rows = [(client.title, *_tested_settings()) for client in CLIENTS]
    errors = table(("Client", "Fault", "Error of the client"), _error_rows())
    return _replace(_CLIENT_TABLES, text, f"{table(headings, rows)}\n\n{errors}\n")


def _tested_settings() -> Iterator[str]:
    """Return the settings with which every client works: by mechanism, and without SASL."""
    working = [cell for cell in CELLS if cell.fault is None]
    for mechanism in MECHANISMS:
        protocols = [cell.protocol for cell in working if cell.mechanism == mechanism]
        yield ", ".join("TLS" if protocol == "SASL_SSL" else "plain" for protocol in protocols)
    without_sasl = [cell for cell in working if not cell.mechanism]
    yield ", ".join("TLS" for cell in without_sasl if not cell.client_auth)
    yield codes(cell.client_auth for cell in without_sasl if cell.client_auth)


def _error_rows() -> Iterator[tuple[str, str, str]]:
    """Return a row for each fault; clients with the same errors share their rows."""
    titles: dict[str, list[str]] = {}
    rows: dict[str, ClientRow] = {}
    for client in CLIENTS:
        key = repr(client.errors)
        titles.setdefault(key, []).append(client.title)
        rows.setdefault(key, client)
    for key, client in rows.items():
        for fault in Fault:
            reason = client.impossible.get(fault)
            error = code(client.errors[fault]) if reason is None else f"none: {reason}"
            if fault in SASL_FAULTS and client.error_if_answer_is_lost:
                error += f", or {code(client.error_if_answer_is_lost)}"
            yield ", ".join(titles[key]), fault.value, error


def _replace(part: re.Pattern[str], text: str, new: str) -> str:
    """Replace the part of `text` after the pattern's group; raises ValueError without one."""
    replaced, number = part.subn(lambda found: found[1] + new, text)
    if number != 1:
        raise ValueError(f"{part.pattern!r} occurs {number} times")
    return replaced


PARTS: Mapping[str, Callable[[str], str]] = {
    "README.md": update_api_count,
    "docs/explanation/defaults.md": update_no_effect_table,
    "docs/how-to/security.md": update_client_tables,
}
"""Path → the function that returns the page's text with the current generated part."""
