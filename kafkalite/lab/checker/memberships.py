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

    def note(self, client: Client, group: str, member: str, at_ns: int) -> None:
        """Note a request that a member sent."""
        spans = self._spans.setdefault(client, {})
        key = Membership(group, member)
        first, last = spans.get(key, (at_ns, at_ns))
        spans[key] = _Span(min(first, at_ns), max(last, at_ns))

    def find(self, client: Client, at_ns: int) -> Membership:
        """Return the membership of a client at some time.

        The group is clear if all memberships of the client are of one group. The member is clear if
        it is the only one, or if no other member of the client was active at that time.
        """
        spans = self._spans.get(client, {})
        groups = {each.group for each in spans}
        if len(groups) != 1:
            return Membership(None, None)
        active = [each for each, span in spans.items() if span.first_ns <= at_ns <= span.last_ns]
        if not active:  # before its first request, or after its last one
            active = [*spans] if len(spans) == 1 else self._latest_before(client, at_ns)
        return active[0] if len(active) == 1 else Membership(groups.pop(), None)

    def _latest_before(self, client: Client, at_ns: int) -> list[Membership]:
        spans = self._spans[client]
        earlier = [each for each in spans if spans[each].last_ns < at_ns]
        return [max(earlier, key=lambda each: spans[each].last_ns)] if earlier else []
