"""Regular expressions as subscriptions: RE2 syntax, matched against whole topic names.

RE2 is what Kafka uses, for its promise that no expression a client sends takes more than linear
time. The library is imported at the first expression: most brokers never see one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.groups.group import GroupId

MIN_REFRESH_INTERVAL_MS = 10_000
"""Expressions of one group are not resolved again sooner, whatever arrives."""

NEVER_RESOLVED_MS = -1 << 63

_COMPILED_EXPRESSIONS = 64
_MEMORY_OF_ONE = 2 << 20
"""Bytes that one expression may come to when it is compiled; larger ones are refused."""
_MOST_IN_A_BUNDLE = 100
_BUNDLE_SIZE = 20_000
"""The most that the programs of a bundle may come to, in RE2's instructions."""
_MEMORY_OF_A_BUNDLE = 64 << 20
"""Bytes to match a bundle with; far more than its size asks for, as RE2 would else miss matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics an expression stood for at one version of the metadata."""

    topics: frozenset[str] = frozenset()
    version: int = -1
    timestamp_ms: int = NEVER_RESOLVED_MS


UNRESOLVED = ResolvedRegex()
"""What an expression stands for that was never resolved."""


@dataclass(frozen=True, slots=True)
class RegexRefresh:
    """The expressions of a group are to be resolved, all of them at once."""

    group_id: GroupId


@lru_cache(maxsize=_COMPILED_EXPRESSIONS)
def compiled(regex: str) -> Any:  # noqa: ANN401 - the library has no types
    """Compile an expression, of topics or of other names; KafkaError INVALID_REGULAR_EXPRESSION."""
    import re2  # noqa: PLC0415 - see above

    try:
        return re2.compile(regex, options=_options(_MEMORY_OF_ONE))
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
    compiled(regex)


def resolve(
    regexes: Iterable[str], topics: Iterable[str], version: int, now_ms: int
) -> dict[str, ResolvedRegex]:
    """Return the topics that each expression wholly matches; none for one that is not valid."""
    matching: dict[str, list[str]] = {regex: [] for regex in regexes}
    for bundle in _bundles(matching):
        _match(bundle, topics, matching)
    return {
        regex: ResolvedRegex(topics=frozenset(found), version=version, timestamp_ms=now_ms)
        for regex, found in matching.items()
    }


def _bundles(regexes: Iterable[str]) -> Iterator[list[str]]:
    """Put expressions together of which one pass over a name tells all that match it."""
    bundle: list[str] = []
    size = 0
    for regex in regexes:
        try:
            own_size = compiled(regex).programsize
        except KafkaError:
            # Checked when it came in, but perhaps by a coordinator whose RE2 knew more.
            continue
        if bundle and (len(bundle) == _MOST_IN_A_BUNDLE or size + own_size > _BUNDLE_SIZE):
            yield bundle
            bundle, size = [], 0
        bundle.append(regex)
        size += own_size
    if bundle:
        yield bundle


def _match(bundle: Sequence[str], topics: Iterable[str], matching: dict[str, list[str]]) -> None:
    import re2  # noqa: PLC0415 - see above

    if len(bundle) == 1:
        (regex,) = bundle
        matching[regex] += filter(compiled(regex).fullmatch, topics)
        return
    together = re2.Set.FullMatchSet(_options(_MEMORY_OF_A_BUNDLE))
    for regex in bundle:
        together.Add(regex)
    together.Compile()
    for topic in topics:
        for index in together.Match(topic) or ():
            matching[bundle[index]].append(topic)
