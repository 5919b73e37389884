"""Memberships: the groups and members of clients, by the requests of the members."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.lab.checker.history import Client


class _Span(NamedTuple):
    """The time from the first request of a member to the last one."""

    first_ns: int
    last_ns: int
    joined_ns: int | None = None
    """When it became a member; None if that was perhaps before the history."""
    left_ns: int | None = None
    """When it last left the group."""

    @property
    def has_ended(self) -> bool:
        """Whether the member left, and did not come back."""
        return self.left_ns is not None and self.last_ns <= self.left_ns

    def is_active(self, at_ns: int) -> bool:
        """Return whether a time is between two requests of the member."""
        first_ns = self.first_ns if self.joined_ns is None else self.joined_ns
        return first_ns <= at_ns <= self.last_ns


class Membership(NamedTuple):
    """The group and member of a client; None if they are not clear."""

    group: str | None
    member: str | None


class Memberships:
    """Finds the member that a client was at some time.

    Requests to fetch name no member, so the client's id and host have to identify it.
    """

    def __init__(self) -> None:
        self._spans: dict[Client, dict[Membership, _Span]] = {}
        self._sorted: dict[Client, _SortedSpans] = {}
        """The same, as far as `find` needed it since the last note."""

    def note(
        self, client: Client, group: str, member: str, at_ns: int, *, is_new: bool = False
    ) -> None:
        """Note a request that a member sent; `is_new` if it was no member before."""
        self._sorted.pop(client, None)
        spans = self._spans.setdefault(client, {})
        key = Membership(group, member)
        span = spans.get(key, _Span(at_ns, at_ns))
        spans[key] = span._replace(
            first_ns=min(span.first_ns, at_ns),
            last_ns=max(span.last_ns, at_ns),
            joined_ns=at_ns if is_new and span.joined_ns is None else span.joined_ns,
        )

    def note_leaving(self, client: Client, group: str, member: str, at_ns: int) -> None:
        """Note that a member left its group."""
        self.note(client, group, member, at_ns)
        spans, key = self._spans[client], Membership(group, member)
        spans[key] = spans[key]._replace(left_ns=max(at_ns, spans[key].left_ns or 0))

    def has_one_member(self, client: Client) -> bool:
        """Return whether a client was the same member all the time."""
        return len(self._spans.get(client, {})) == 1

    def find(self, client: Client, at_ns: int) -> Membership:
        """Return the membership of a client at some time.

        The group is clear if all memberships of the client are of one group. The member is clear if
        it is the only one, or if no other member of the client was active at that time. Before the
        first member joined, and after all have left, the client is in no group.
        """
        spans = self._sorted.get(client)
        if spans is None:
            spans = self._sorted[client] = _SortedSpans(self._spans.get(client, {}))
        return spans.find(at_ns)


class _SortedSpans:
    """The members of one client, sorted so that a time is found without looking at all of them."""

    def __init__(self, spans: Mapping[Membership, _Span]) -> None:
        self._groups = {each.group for each in spans}
        self._count = len(spans)
        self._begun = sorted(spans.items(), key=_first_ns)
        self._latest_ns = [*accumulate((span.last_ns for _, span in self._begun), max)]
        """The last time of the members up to each one, in the order in which they begin."""
        remaining = [each for each in spans.items() if not each[1].has_ended]
        self._remaining = sorted(remaining, key=_last_ns)
        unknown = [span.first_ns for span in spans.values() if span.joined_ns is None]
        self._begins_unknown_ns = max(unknown, default=-1)

    def find(self, at_ns: int) -> Membership:
        """Return the membership at some time."""
        if len(self._groups) != 1:
            return Membership(None, None)
        (group,) = self._groups
        active = self._active(at_ns)
        if active:
            return active[0] if len(active) == 1 else Membership(group, None)
        count = bisect_left(self._remaining, at_ns, key=_last_ns)
        if count:
            return self._remaining[count - 1][0]
        if at_ns >= self._begins_unknown_ns:
            return Membership(None, None)
        return self._begun[0][0] if self._count == 1 else Membership(group, None)

    def _active(self, at_ns: int) -> list[Membership]:
        found = []
        index = bisect_right(self._begun, at_ns, key=_first_ns) - 1
        while index >= 0 and self._latest_ns[index] >= at_ns:
            member, span = self._begun[index]
            if span.is_active(at_ns):
                found.append(member)
            index -= 1
        return found


def _first_ns(each: tuple[Membership, _Span]) -> int:
    return each[1].first_ns


def _last_ns(each: tuple[Membership, _Span]) -> int:
    return each[1].last_ns
