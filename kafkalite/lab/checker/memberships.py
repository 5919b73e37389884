"""Memberships: the groups and members of clients, by the requests of the members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.lab.checker.history import Client


class _Span(NamedTuple):
    """The time from the first request of a member to the last one."""

    first_ns: int
    last_ns: int
    joined_ns: int | None = None
    """When it became a member; None if that was perhaps before the history."""
    left_ns: int | None = None
    """When it last left the group."""

    def may_include(self, at_ns: int) -> bool:
        """Return whether the member may have been in the group at some time."""
        has_joined = self.joined_ns is None or self.joined_ns <= at_ns
        has_left = self.left_ns is not None and self.last_ns <= self.left_ns < at_ns
        return has_joined and not has_left


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

    def note(
        self, client: Client, group: str, member: str, at_ns: int, *, is_new: bool = False
    ) -> None:
        """Note a request that a member sent; `is_new` if it was no member before."""
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
        every = self._spans.get(client, {})
        groups = {each.group for each in every}
        spans = {each: span for each, span in every.items() if span.may_include(at_ns)}
        if len(groups) != 1 or not spans:
            return Membership(None, None)
        active = [each for each, span in spans.items() if span.first_ns <= at_ns <= span.last_ns]
        if not active:  # before its first request, or after its last one
            active = [*spans] if len(every) == 1 else _latest_before(spans, at_ns)
        return active[0] if len(active) == 1 else Membership(groups.pop(), None)


def _latest_before(spans: dict[Membership, _Span], at_ns: int) -> list[Membership]:
    earlier = [each for each in spans if spans[each].last_ns < at_ns]
    return [max(earlier, key=lambda each: spans[each].last_ns)] if earlier else []
