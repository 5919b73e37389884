"""Signposts: what clients ask to find their way, as often as they connect, on whichever connection.

How often and in which order that is asked is for the threads of a client to decide, so it is told
by what is asked and not by position: the answers that the same question of the client got, one
after the other, and the last for ever. Failing that, what anybody was told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from kafkalite.capture.messages import api_name, parse_request
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.answers import MissError
from kafkalite.replay.likeness import Nearness, likeness

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from kafkalite.capture.messages import Header
    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message

ASKED_TO_FIND_THE_WAY = frozenset((3, 10, 18, 60))
"""Metadata, FindCoordinator, ApiVersions, DescribeCluster."""


class Post:
    """One recorded answer, and whether it was given."""

    __slots__ = ("exchange", "given")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.given = False


class Signposts:
    """Tells by what is asked."""

    def __init__(self, exchanges: Iterable[Exchange]) -> None:
        """Take recorded exchanges of `ASKED_TO_FIND_THE_WAY`, in the order of time."""
        self._posts: defaultdict[Hashable, list[Post]] = defaultdict(list)
        """What was told to those who asked alike, the next one last."""
        for exchange in exchanges:
            try:
                request = parse_request(exchange)
            except ProtocolViolation:
                continue
            post = Post(exchange)
            for place in _places(exchange, request):
                self._posts[place].append(post)
        for place, posts in self._posts.items():
            # Who was told nothing went away before; a broker that is mute never tells anyone.
            self._posts[place] = [each for each in posts if _is_told(each)][::-1] or posts

    @property
    def not_asked(self) -> Mapping[str, int]:
        """Return how many recorded answers of each API were not given."""
        posts = {id(each): each for posts in self._posts.values() for each in posts}
        return Counter(api_name(each.exchange.api_key) for each in posts.values() if not each.given)

    def next(self, header: Header, request: Message) -> Exchange:
        """Return whose turn it is of what was asked most like this; MissError."""
        for place in _places(header, request):
            if place in self._posts:
                posts = self._posts[place]
                while posts[-1].given and len(posts) > 1:
                    posts.pop()
                posts[-1].given = True
                return posts[-1].exchange
        raise MissError("nobody asked for it in this version")


def _is_told(post: Post) -> bool:
    return post.exchange.response is not None


def _places(asked: Header | Exchange, request: Message) -> Iterator[Hashable]:
    """Yield what is equal for requests that are alike, those that are most alike first."""
    kind = asked.api_key, asked.api_version
    words = likeness(asked.api_key, request, Nearness.ALIKE, lambda _: None)
    yield asked.client_id, kind, words
    yield kind, words
    yield asked.client_id, kind
    yield kind
