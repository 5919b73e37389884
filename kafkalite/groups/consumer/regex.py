"""Subscriptions by regular expression: RE2 syntax, matched against whole topic names.

Kafka uses RE2 as well because it matches every expression in linear time. The library is imported
at the first expression, because most brokers never get one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.groups.modern.member import MayDescribe

MIN_REFRESH_INTERVAL_MS = 10_000
"""The minimum time between two resolutions of a group's expressions."""

NEVER_RESOLVED_MS = -1 << 63

_MAX_CACHED_EXPRESSIONS = 64
_MAX_EXPRESSION_BYTES = 2 << 20
"""The maximum size of a compiled expression in bytes; larger ones are refused."""
_MAX_BATCH_EXPRESSIONS = 100
_MAX_BATCH_PROGRAM_SIZE = 20_000
"""The maximum total size of a batch's programs, in RE2 instructions."""
_MAX_BATCH_BYTES = 64 << 20
"""The memory limit of a batch in bytes; with a tight limit RE2 would miss matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics that matched an expression at one version of the metadata."""

    topics: frozenset[str] = frozenset()
    version: int = -1
    timestamp_ms: int = NEVER_RESOLVED_MS


UNRESOLVED = ResolvedRegex()
"""The value of an expression that has not been resolved yet."""


@dataclass(frozen=True, slots=True)
class RegexRefresh:
    """Timer event: resolve all expressions of a group, as a request of this member requires."""

    group_id: GroupId
    member_id: MemberId
    may_describe: MayDescribe | None = None
    """The permissions of the member; as in Kafka, they apply to the expressions of all members."""


@lru_cache(maxsize=_MAX_CACHED_EXPRESSIONS)
def compile_regex(regex: str) -> Any:  # noqa: ANN401 - the library has no types
    """Compile an expression; raises KafkaError(INVALID_REGULAR_EXPRESSION)."""
    import re2  # noqa: PLC0415 - see above

    try:
        return re2.compile(regex, options=_options(_MAX_EXPRESSION_BYTES))
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex {regex!r} is not a valid regular expression: {text}.",
        ) from None


def _options(memory: int) -> Any:  # noqa: ANN401 - the library has no types
    import re2  # noqa: PLC0415 - see above

    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    return options


def check_regex(regex: str) -> None:
    """Raise KafkaError(INVALID_REGULAR_EXPRESSION) unless the expression compiles."""
    compile_regex(regex)


def resolve(
    regexes: Iterable[str], topics: Iterable[str], version: int, now_ms: int
) -> dict[str, ResolvedRegex]:
    """Return the topics that fully match each expression; an invalid one matches none."""
    matching: dict[str, list[str]] = {regex: [] for regex in regexes}
    for batch in _batches(matching):
        _match(batch, topics, matching)
    return {
        regex: ResolvedRegex(topics=frozenset(found), version=version, timestamp_ms=now_ms)
        for regex, found in matching.items()
    }


def hide_topics(
    resolved: Mapping[str, ResolvedRegex], may_describe: MayDescribe
) -> tuple[dict[str, ResolvedRegex], frozenset[str]]:
    """Return the expressions without topics that a client may not describe, and these topics."""
    topics = frozenset[str]().union(*(each.topics for each in resolved.values()))
    hidden = frozenset(topic for topic in topics if not may_describe(topic))
    remaining = {
        regex: replace(each, topics=each.topics - hidden) for regex, each in resolved.items()
    }
    return remaining, hidden


def _batches(regexes: Iterable[str]) -> Iterator[list[str]]:
    """Yield batches of expressions that are matched against a name in one pass."""
    batch: list[str] = []
    size = 0
    for regex in regexes:
        try:
            own_size = compile_regex(regex).programsize
        except KafkaError:
            # It was valid in the coordinator that wrote it, perhaps with a newer RE2.
            continue
        if batch and (
            len(batch) == _MAX_BATCH_EXPRESSIONS or size + own_size > _MAX_BATCH_PROGRAM_SIZE
        ):
            yield batch
            batch, size = [], 0
        batch.append(regex)
        size += own_size
    if batch:
        yield batch


def _match(batch: Sequence[str], topics: Iterable[str], matching: dict[str, list[str]]) -> None:
    import re2  # noqa: PLC0415 - see above

    if len(batch) == 1:
        (regex,) = batch
        matching[regex] += filter(compile_regex(regex).fullmatch, topics)
        return
    matcher = re2.Set.FullMatchSet(_options(_MAX_BATCH_BYTES))
    for regex in batch:
        matcher.Add(regex)
    matcher.Compile()
    for topic in topics:
        for index in matcher.Match(topic) or ():
            matching[batch[index]].append(topic)
