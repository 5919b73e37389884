"""MemberClients: the clients of the members that the events of one group named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_MEMBERS: Final = 64
"""Maximum number of members of a group whose clients are remembered."""
MAX_NAMED: Final = 20
"""Maximum number of members of one entry whose clients are given."""

_PUNCTUATION: Final = ",.;:()'\""


class MemberClient(NamedTuple):
    """A member of a group, and its client."""

    member_id: str
    client_id: str
    client_host: str
    """The address of the client."""


class MemberClients:
    """The clients of the latest members of a group, by member id."""

    __slots__ = ("_clients",)

    def __init__(self) -> None:
        self._clients: dict[str, MemberClient] = {}

    def copy(self) -> MemberClients:
        """Return an object that knows the same clients."""
        copy = MemberClients()
        copy._clients = self._clients.copy()
        return copy

    def learn(self, facts: Mapping[str, object]) -> int:
        """Remember the client of the member in the facts of an event; return the bytes it takes.

        The result is negative if an older member was forgotten.
        """
        client = client_in(facts)
        if client is None:
            return 0
        earlier = self._clients.pop(client.member_id, None)
        if earlier is None and len(self._clients) >= MAX_MEMBERS:
            earlier = self._clients.pop(next(iter(self._clients)))
        self._clients[client.member_id] = client
        return _bytes_of(client) - (0 if earlier is None else _bytes_of(earlier))

    def named_in(self, text: str, facts: Mapping[str, object]) -> tuple[MemberClient, ...]:
        """Return the members that an event names in its text or its facts, at most MAX_NAMED.

        They are the members whose clients are known, and the one whose client is in the facts.
        """
        found: dict[str, MemberClient] = {}
        described = client_in(facts)
        if described is not None:
            found[described.member_id] = self._clients.get(described.member_id, described)
        for word in _words(text, facts):
            client = self._clients.get(word)
            if client is not None:
                found[word] = client
                if len(found) == MAX_NAMED:
                    break
        return tuple(found.values())


def client_in(facts: Mapping[str, object]) -> MemberClient | None:
    """Return the member in the facts of an event; None if they have no member or no client."""
    member_id, client_id, host = map(facts.get, ("member_id", "client_id", "client_host"))
    if not member_id or not isinstance(member_id, str) or not isinstance(client_id, str):
        return None
    return MemberClient(member_id, client_id, f"{host or ''}".removeprefix("/"))


def _words(text: str, facts: Mapping[str, object]) -> Iterator[str]:
    for fact in facts.values():
        if isinstance(fact, str):
            yield fact
        elif isinstance(fact, list):
            yield from (each for each in fact if isinstance(each, str))
    yield from (word.strip(_PUNCTUATION) for word in text.split())


def _bytes_of(client: MemberClient) -> int:
    return 200 + 4 * sum(map(len, client))
