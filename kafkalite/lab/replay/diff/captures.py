"""Comparison of two captures: APIs, versions, errors and fields that differ.

If a client sent equally many requests of an API in both captures, its exchanges are compared one by
one, in order. Otherwise the sets of values of each field are compared.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Direction
from kafkalite.capture.reading.messages import (
    api_name,
    parse_request,
    parse_response,
    response_version,
)
from kafkalite.lab.replay.comparison.compare import Comparison, Difference
from kafkalite.lab.replay.comparison.field_rules import Treatment
from kafkalite.lab.replay.comparison.shapes import shape_of
from kafkalite.lab.replay.diff.usage import ClusterUsage, read_usage
from kafkalite.lab.replay.loading import ignore_progress, path_list
from kafkalite.lab.replay.report import value_text
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, Scope
from kafkalite.ports.texts import times_text
from kafkalite.protocol.catalogue import keys_where
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalite.capture.model import Exchange
    from kafkalite.lab.replay.comparison.shapes import Shape
    from kafkalite.lab.replay.diff.usage import ClientApi
    from kafkalite.lab.replay.loading import Paths

MAX_VALUES = 20
"""Maximum number of different values of a compared field; other fields are expected to vary."""
MAX_FIELD_CHANGES = 10_000

POLLED_APIS = keys_where(lambda row: row.is_polled)
"""APIs that clients poll: the number of requests depends on the length of a capture."""


class ChangeKind(Enum):
    """Kind of a difference."""

    CLIENT = "client"
    API = "api"
    VERSION = "version"
    COUNT = "count"
    ERROR = "error"
    FIELD = "field"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two captures."""

    kind: ChangeKind
    api: str
    """Empty for a difference of a client."""
    client: str
    """Empty for a difference of all clients."""
    field_or_error: str
    """The path of a field after "request." or "response.", the name of an error, or empty."""
    before: str
    """Number or value in the first capture."""
    after: str
    """Number or value in the second capture."""
    times: int = 1
    """Number of occurrences."""
    row: str = ""
    """The keys of the rows that contain the field, in the first occurrence."""


@dataclass(slots=True)
class DiffReport:
    """The differences between two captures."""

    before: ClusterUsage
    after: ClusterUsage
    changes: list[Change] = field(default_factory=list)

    def changes_of(self, kind: ChangeKind) -> list[Change]:
        """Return the changes of one kind."""
        return [change for change in self.changes if change.kind is kind]

    def to_json(self) -> dict[str, Any]:
        """Return the report as a dict for `json.dumps`."""
        return {
            "before": _usage_to_json(self.before),
            "after": _usage_to_json(self.after),
            "changes": [
                {
                    "kind": change.kind.value,
                    "api": change.api,
                    "client": change.client,
                    "field_or_error": change.field_or_error,
                    "row": change.row,
                    "before": change.before,
                    "after": change.after,
                    "times": change.times,
                }
                for change in self.changes
            ],
        }


def _usage_to_json(usage: ClusterUsage) -> dict[str, Any]:
    return {
        "name": usage.name,
        "connections": len(usage.connections),
        "requests": usage.requests,
        "seconds": round(usage.seconds, 3),
        "software": {client: sorted(names) for client, names in sorted(usage.software.items())},
        "problems": usage.problem_kinds.total(),
    }


def diff(
    before: Paths, after: Paths, progress: Callable[[str], None] = ignore_progress
) -> DiffReport:
    """Compare two captures, each a file, a directory or several of them.

    `progress` is called with a line of text from time to time if reading takes long.
    """
    sides = [path_list(paths) for paths in (before, after)]
    return compare(*(read_usage(", ".join(map(str, paths)), paths, progress) for paths in sides))


def compare(before: ClusterUsage, after: ClusterUsage) -> DiffReport:
    """Return the differences between the usages of two captures."""
    report = DiffReport(before, after)
    report.changes += _client_changes(before, after)
    report.changes += _usage_changes(before, after)
    report.changes += _field_changes(before, after)
    return report


def _client_changes(before: ClusterUsage, after: ClusterUsage) -> Iterator[Change]:
    clients_before = {client_api.client for client_api in before.counts}
    clients_after = {client_api.client for client_api in after.counts}
    for client in sorted(clients_before | clients_after):
        software_before = _software(before, client, is_present=client in clients_before)
        software_after = _software(after, client, is_present=client in clients_after)
        if software_before != software_after:
            yield Change(ChangeKind.CLIENT, "", client, "", software_before, software_after)


def _software(usage: ClusterUsage, client: str, *, is_present: bool) -> str:
    if not is_present:
        return "(absent)"
    return ", ".join(sorted(usage.software[client])) or "(unknown software)"


def _usage_changes(before: ClusterUsage, after: ClusterUsage) -> Iterator[Change]:
    for api_key in sorted(before.api_usage.keys() | after.api_usage.keys()):
        api = api_name(api_key)
        usage_before, usage_after = before.api_usage[api_key], after.api_usage[api_key]
        if not usage_before.requests or not usage_after.requests:
            yield Change(
                ChangeKind.API,
                api,
                "",
                "",
                f"{usage_before.requests} requests",
                f"{usage_after.requests} requests",
            )
            continue
        if usage_before.versions.keys() != usage_after.versions.keys():
            yield Change(
                ChangeKind.VERSION,
                api,
                "",
                "",
                _version_list(usage_before.versions),
                _version_list(usage_after.versions),
            )
        if usage_before.requests != usage_after.requests and api_key not in POLLED_APIS:
            yield Change(
                ChangeKind.COUNT, api, "", "", str(usage_before.requests), str(usage_after.requests)
            )
        if usage_before.errors != usage_after.errors:
            for name in sorted(usage_before.errors.keys() | usage_after.errors.keys()):
                times = usage_before.errors[name], usage_after.errors[name]
                if times[0] != times[1]:
                    yield Change(
                        ChangeKind.ERROR, api, "", name, times_text(times[0]), times_text(times[1])
                    )


def _version_list(versions: Iterable[int]) -> str:
    return ", ".join(f"v{version}" for version in sorted(versions))


# -- fields -------------------------------------------------------------------------------


def _field_changes(before: ClusterUsage, after: ClusterUsage) -> Iterator[Change]:
    mapping = IdMapping()
    count = 0
    for client_api in sorted(before.exchanges.keys() & after.exchanges.keys()):
        exchanges_before, exchanges_after = (
            before.exchanges[client_api].exchanges(),
            after.exchanges[client_api].exchanges(),
        )
        if before.counts[client_api] == after.counts[client_api]:
            changes = _compare_in_order(client_api, exchanges_before, exchanges_after, mapping)
        else:
            changes = _compare_values(client_api, exchanges_before, exchanges_after)
        for change in changes:
            yield change
            count += 1
            if count >= MAX_FIELD_CHANGES:
                return


def _compare_in_order(
    client_api: ClientApi, before: Sequence[Exchange], after: Sequence[Exchange], mapping: IdMapping
) -> list[Change]:
    """Compare exchanges one by one; return one change per path, with the first example."""
    comparison = Comparison(mapping, lambda *_: None)
    first_differences: dict[str, Difference] = {}
    times: defaultdict[str, int] = defaultdict(int)
    for exchange_before, exchange_after in zip(before, after, strict=False):
        for path, difference in _differences(comparison, exchange_before, exchange_after):
            first_differences.setdefault(path, difference)
            times[path] += 1
    api = api_name(client_api.api_key)
    return [
        Change(
            ChangeKind.FIELD,
            api,
            client_api.client,
            path,
            value_text(path, difference.recorded),
            value_text(path, difference.target),
            times[path],
            difference.row,
        )
        for path, difference in sorted(first_differences.items())
    ]


def _differences(
    comparison: Comparison, before: Exchange, after: Exchange
) -> Iterator[tuple[str, Difference]]:
    for direction in Direction:
        message_before, message_after = (
            _parse_message(before, direction),
            _parse_message(after, direction),
        )
        if message_before is None or message_after is None:
            continue
        shape = shape_of(before.api_key, message_before[0], direction, message_after[0])
        for difference in comparison.compare(shape, message_before[1], message_after[1], Scope()):
            yield f"{direction.name.lower()}.{difference.path}", difference


def _parse_message(exchange: Exchange, direction: Direction) -> tuple[int, Any] | None:
    """Return the version and the message of one direction, None if it is missing or malformed."""
    try:
        if direction is Direction.REQUEST:
            return exchange.api_version, parse_request(exchange)
        if exchange.response is None:
            return None
        version = response_version(exchange.response, exchange.api_key, exchange.api_version)
        return version, parse_response(exchange)
    except ProtocolViolation:
        return None


def _compare_values(
    client_api: ClientApi, before: Sequence[Exchange], after: Sequence[Exchange]
) -> list[Change]:
    """Compare the sets of values of each field."""
    values_before, values_after = _values_by_path(before), _values_by_path(after)
    api = api_name(client_api.api_key)
    changes = []
    for path in sorted(values_before.keys() & values_after.keys()):
        if (
            values_before[path] == values_after[path]
            or max(len(values_before[path]), len(values_after[path])) > MAX_VALUES
        ):
            continue
        removed, added = (
            value_text("", ", ".join(sorted(values)) or "(no other)")
            for values in (
                values_before[path] - values_after[path],
                values_after[path] - values_before[path],
            )
        )
        changes.append(Change(ChangeKind.FIELD, api, client_api.client, path, removed, added))
    return changes


def _values_by_path(exchanges: Sequence[Exchange]) -> dict[str, set[str]]:
    values_by_path: defaultdict[str, set[str]] = defaultdict(set)
    for exchange in exchanges:
        for direction in Direction:
            message = _parse_message(exchange, direction)
            if message is not None:
                shape = shape_of(exchange.api_key, message[0], direction)
                _collect_values(shape, message[1], f"{direction.name.lower()}.", values_by_path)
    return values_by_path


_COMPARED_TREATMENTS = frozenset((Treatment.EXACT, Treatment.SET))


def _collect_values(
    shape: Shape,
    message: Any,  # noqa: ANN401 - any struct
    prefix: str,
    values_by_path: defaultdict[str, set[str]],
) -> None:
    for leaf in shape.leaves:
        values = values_by_path[f"{prefix}{leaf.path}"]
        if leaf.rule.treatment in _COMPARED_TREATMENTS and len(values) <= MAX_VALUES:
            values.add(value_text(leaf.path, getattr(message, leaf.name)))
    for branch in shape.branches:
        if branch.rule.treatment is Treatment.IGNORED:
            continue
        inner = getattr(message, branch.name)
        for row in (inner or ()) if branch.is_list else (inner,):
            if row is not None:
                _collect_values(branch.shape, row, prefix, values_by_path)
