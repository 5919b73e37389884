"""Regular expressions as subscriptions: RE2 syntax, matched against whole topic names.

RE2 is what Kafka uses, for its promise that no expression a client sends takes more than linear
time. The library is imported at the first expression: most brokers never see one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalite.groups.group import GroupId

MIN_REFRESH_INTERVAL_MS = 10_000
"""Expressions of one group are not resolved again sooner, whatever arrives."""

NEVER_RESOLVED_MS = -1 << 63

_COMPILED_EXPRESSIONS = 256


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
def _matcher(regex: str) -> Callable[[str], object]:
    """Compile an expression; KafkaError(INVALID_REGULAR_EXPRESSION) when RE2 refuses it."""
    import re2  # noqa: PLC0415 - see above

    options = re2.Options()
    options.log_errors = False
    try:
        matcher: Callable[[str], object] = re2.compile(regex, options=options).fullmatch
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode() if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex {regex!r} is not a valid regular expression: {text}.",
        ) from None
    return matcher


def check_regex(regex: str) -> None:
    """Raise KafkaError(INVALID_REGULAR_EXPRESSION) unless the expression compiles."""
    _matcher(regex)


def resolve(
    regexes: Iterable[str], topics: Iterable[str], version: int, now_ms: int
) -> dict[str, ResolvedRegex]:
    """Return the topics that each expression wholly matches; none for one that is not valid."""
    return {
        regex: ResolvedRegex(topics=_matching(regex, topics), version=version, timestamp_ms=now_ms)
        for regex in regexes
    }


def _matching(regex: str, topics: Iterable[str]) -> frozenset[str]:
    try:
        return frozenset(filter(_matcher(regex), topics))
    except KafkaError:
        # Checked when it came in, but perhaps by a coordinator whose RE2 knew more.
        return frozenset()
