"""Two captures held against each other: which APIs, versions, errors and fields differ.

Where a client asks an API as often in both, its exchanges are compared one by one, in their order.
Where it does not, what stands in each field is compared as a set: which values are in one alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from kafkalite.capture.messages import api_name, parse_request, parse_response, response_version
from kafkalite.capture.model import Direction
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.compare import Comparison, Difference
from kafkalite.replay.loading import quiet
from kafkalite.replay.mapping import Mapping, Scope
from kafkalite.replay.masks import Treatment
from kafkalite.replay.paths import listed
from kafkalite.replay.report import often, shown
from kafkalite.replay.shapes import shape_of
from kafkalite.replay.sides import Side, side_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalite.capture.model import Exchange
    from kafkalite.replay.paths import Paths
    from kafkalite.replay.shapes import Shape
    from kafkalite.replay.sides import Part

MOST_VALUES = 20
"""Different values of a field, beyond which it is one that varies by nature."""
MOST_FIELDS = 10_000

POLLED = frozenset((1, 3, 12, 68, 71, 72, 76, 78, 88))
"""APIs that clients ask as time goes by: Fetch, Metadata, heartbeats, telemetry, ShareFetch. How
often says how long a capture is."""


class Kind(Enum):
    """What differs."""

    CLIENT = "client"
    API = "api"
    VERSION = "version"
    COUNT = "count"
    ERROR = "error"
    FIELD = "field"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing in which two captures differ."""

    kind: Kind
    api: str
    """Empty where it is about a client."""
    client: str
    """Empty where it is about all of them."""
    what: str
    """The path of a field, after "request." or "response."; else empty."""
    before: str
    after: str
    times: int = 1
    row: str = ""


@dataclass(slots=True)
class DiffReport:
    """In what two captures differ."""

    before: Side
    after: Side
    changes: list[Change] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Change]:
        """Return the changes of one kind."""
        return [change for change in self.changes if change.kind is kind]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "before": _side_shape(self.before),
            "after": _side_shape(self.after),
            "changes": [
                {
                    "kind": change.kind.value,
                    "api": change.api,
                    "client": change.client,
                    "what": change.what,
                    "row": change.row,
                    "before": change.before,
                    "after": change.after,
                    "times": change.times,
                }
                for change in self.changes
            ],
        }


def _side_shape(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "connections": len(side.connections),
        "requests": side.requests,
        "seconds": round(side.seconds, 3),
        "software": {role: sorted(told) for role, told in sorted(side.software.items())},
        "problems": side.problem_kinds.total(),
    }


def diff(before: Paths, after: Paths, tell: Callable[[str], None] = quiet) -> DiffReport:
    """Compare two captures, each a file, a directory or several of them.

    `tell` is given a line now and then, where reading them takes long.
    """
    sides = [listed(paths) for paths in (before, after)]
    return compared(*(side_of(", ".join(map(str, paths)), paths, tell) for paths in sides))


def compared(before: Side, after: Side) -> DiffReport:
    """Return in what two sides differ."""
    report = DiffReport(before, after)
    report.changes += _clients(before, after)
    report.changes += _usage(before, after)
    report.changes += _fields(before, after)
    return report


def _clients(before: Side, after: Side) -> Iterator[Change]:
    theirs = {part.role for part in before.counts}
    ours = {part.role for part in after.counts}
    for role in sorted(theirs | ours):
        one = _software(before, role, is_there=role in theirs)
        other = _software(after, role, is_there=role in ours)
        if one != other:
            yield Change(Kind.CLIENT, "", role, "", one, other)


def _software(side: Side, role: str, *, is_there: bool) -> str:
    if not is_there:
        return "(absent)"
    return ", ".join(sorted(side.software[role])) or "(does not say)"


def _usage(before: Side, after: Side) -> Iterator[Change]:
    for api_key in sorted(before.usage.keys() | after.usage.keys()):
        api = api_name(api_key)
        one, other = before.usage[api_key], after.usage[api_key]
        if not one.requests or not other.requests:
            yield Change(
                Kind.API, api, "", "", f"{one.requests} requests", f"{other.requests} requests"
            )
            continue
        if one.versions.keys() != other.versions.keys():
            yield Change(Kind.VERSION, api, "", "", _list(one.versions), _list(other.versions))
        if one.requests != other.requests and api_key not in POLLED:
            yield Change(Kind.COUNT, api, "", "", str(one.requests), str(other.requests))
        if one.errors != other.errors:
            for name in sorted(one.errors.keys() | other.errors.keys()):
                times = one.errors[name], other.errors[name]
                if times[0] != times[1]:
                    yield Change(Kind.ERROR, api, "", name, often(times[0]), often(times[1]))


def _list(versions: Iterable[int]) -> str:
    return ", ".join(f"v{version}" for version in sorted(versions))


# -- fields -------------------------------------------------------------------------------


def _fields(before: Side, after: Side) -> Iterator[Change]:
    meaning = Mapping()
    told = 0
    for part in sorted(before.kept.keys() & after.kept.keys()):
        one, other = before.kept[part].exchanges(), after.kept[part].exchanges()
        if before.counts[part] == after.counts[part]:
            found = _aligned(part, one, other, meaning)
        else:
            found = _apart(part, one, other)
        for change in found:
            yield change
            told += 1
            if told >= MOST_FIELDS:
                return


def _aligned(
    part: Part, before: Sequence[Exchange], after: Sequence[Exchange], meaning: Mapping
) -> list[Change]:
    """Compare exchanges one by one; the first example of each path stands for all."""
    comparison = Comparison(meaning, lambda *_: None)
    first: dict[str, Difference] = {}
    times: defaultdict[str, int] = defaultdict(int)
    for one, other in zip(before, after, strict=False):
        for path, difference in _differences(comparison, one, other):
            first.setdefault(path, difference)
            times[path] += 1
    api = api_name(part.api_key)
    return [
        Change(
            Kind.FIELD,
            api,
            part.role,
            path,
            shown(path, difference.recorded),
            shown(path, difference.target),
            times[path],
            difference.row,
        )
        for path, difference in sorted(first.items())
    ]


def _differences(
    comparison: Comparison, before: Exchange, after: Exchange
) -> Iterator[tuple[str, Difference]]:
    for direction in Direction:
        one, other = _message(before, direction), _message(after, direction)
        if one is None or other is None:
            continue
        shape = shape_of(before.api_key, one[0], direction, other[0])
        for difference in comparison.compare(shape, one[1], other[1], Scope()):
            yield f"{direction.name.lower()}.{difference.path}", difference


def _message(exchange: Exchange, direction: Direction) -> tuple[int, Any] | None:
    """Return the version and the message of one direction, None where there is none to read."""
    try:
        if direction is Direction.REQUEST:
            return exchange.api_version, parse_request(exchange)
        if exchange.response is None:
            return None
        version = response_version(exchange.response, exchange.api_key, exchange.api_version)
        return version, parse_response(exchange)
    except ProtocolViolation:
        return None


def _apart(part: Part, before: Sequence[Exchange], after: Sequence[Exchange]) -> list[Change]:
    """Compare which values each field has in either capture."""
    one, other = _values(before), _values(after)
    api = api_name(part.api_key)
    found = []
    for path in sorted(one.keys() & other.keys()):
        if one[path] == other[path] or max(len(one[path]), len(other[path])) > MOST_VALUES:
            continue
        gone, new = (
            shown("", ", ".join(sorted(each)) or "(no other)")
            for each in (one[path] - other[path], other[path] - one[path])
        )
        found.append(Change(Kind.FIELD, api, part.role, path, gone, new))
    return found


def _values(exchanges: Sequence[Exchange]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for exchange in exchanges:
        for direction in Direction:
            told = _message(exchange, direction)
            if told is not None:
                shape = shape_of(exchange.api_key, told[0], direction)
                _collect(shape, told[1], f"{direction.name.lower()}.", found)
    return found


_COMPARED = frozenset((Treatment.EXACT, Treatment.SET))


def _collect(shape: Shape, message: Any, prefix: str, found: defaultdict[str, set[str]]) -> None:  # noqa: ANN401 - any struct
    for leaf in shape.leaves:
        values = found[f"{prefix}{leaf.path}"]
        if leaf.mask.treatment in _COMPARED and len(values) <= MOST_VALUES:
            values.add(shown(leaf.path, getattr(message, leaf.name)))
    for branch in shape.branches:
        if branch.mask.treatment is Treatment.IGNORED:
            continue
        inner = getattr(message, branch.name)
        for row in (inner or ()) if branch.is_list else (inner,):
            if row is not None:
                _collect(branch.shape, row, prefix, found)
