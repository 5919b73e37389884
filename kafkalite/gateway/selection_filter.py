"""A fast filter: whether the match of a fault may select a request, before it is compared exactly.

Most requests are not those of a fault. The filter compares only what most matches name: a group, a
member, a topic and its partition. It excludes no request that the match selects, and none that is
equal to one that the match selects later: a topic with an unknown id may become known.
"""

# ruff: noqa: ANN401 - requests and rows of any API
from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalite.gateway.call import Call
    from kafkalite.gateway.fault_rules import Match

READ_WITH_SESSIONS: Final = frozenset((ApiKey.FETCH, ApiKey.SHARE_FETCH))
"""APIs whose requests do not name all that they read."""
_NO_ID: Final = bytes(16)


class _TopicList(NamedTuple):
    """A list of topics in a request, and the fields of its elements; empty if they have none."""

    path: str
    name: str
    """Empty if the elements are names."""
    topic_id: str
    partitions: str
    partition: str
    """Empty if the partitions are numbers."""


def request_filter(
    key: ApiKey, match: Match, conditions: Iterable[Callable[[Call], bool]] = ()
) -> Callable[[Call, Any], bool]:
    """Return the filter of a match for the requests of an API: whether it may select one.

    The conditions of a call are part of it; they must be the same for all requests of a connection.
    """
    filters = (*map(_of_call, conditions), *_filters(key, match))
    if len(filters) == 1:
        return filters[0]

    def is_possible(call: Call, request: Any) -> bool:
        return all(each(call, request) for each in filters)

    return is_possible


def _of_call(condition: Callable[[Call], bool]) -> Callable[[Call, Any], bool]:
    return lambda call, _: condition(call)


def _filters(key: ApiKey, match: Match) -> Iterator[Callable[[Call, Any], bool]]:
    fields = row(key).request
    for place, value in (
        (fields.group, match.group),
        (fields.member, match.member),
        (fields.transactional_id, match.transactional_id),
    ):
        if value is not None and place.isidentifier():
            yield _has_value(place, value)
    has_topic = match.topic is not None or match.partition is not None
    if has_topic and key not in READ_WITH_SESSIONS:
        lists = _topic_lists(key)
        if lists:
            yield _has_topic(lists, match.topic, match.partition)


def _has_value(place: str, value: str) -> Callable[[Call, Any], bool]:
    """Return a filter for a field of a request, which may be a list."""
    read = attrgetter(place)

    def is_possible(_: Call, request: Any) -> bool:
        found = read(request)
        return found == value or (found.__class__ is not str and found is not None)

    return is_possible


def _topic_lists(key: ApiKey) -> list[_TopicList]:
    """Return the lists of topics in the requests of an API; none if there are other places."""
    fields = row(key).request
    places = {
        entity: dict(place.partition(".")[::2] for place in getattr(fields, entity.value).split())
        for entity in (Entity.TOPIC, Entity.TOPIC_ID, Entity.PARTITION)
    }
    names, ids = places[Entity.TOPIC], places[Entity.TOPIC_ID]
    if any("." in field or "?" in field for field in (*names.values(), *ids.values())):
        return []
    return [
        _TopicList(
            path,
            names.get(path, ""),
            ids.get(path, ""),
            *places[Entity.PARTITION].get(path, "").partition(".")[::2],
        )
        for path in dict.fromkeys((*names, *ids))
    ]


def _has_topic(
    lists: list[_TopicList], topic: str | None, partition: int | None
) -> Callable[[Call, Any], bool]:
    """Return a filter for the topics in a request, and the partitions in the same elements."""
    if partition is not None and topic is None:
        lists = [each for each in lists if each.partitions]

    def is_possible(call: Call, request: Any) -> bool:
        for each in lists:
            for element in getattr(request, each.path) or ():
                if topic is not None:
                    name = _name_of(call, each, element)
                    if name != topic and name is not None:
                        continue
                if partition is None or _has_partition(each, element, partition):
                    return True
        return False

    return is_possible


def _name_of(call: Call, described: _TopicList, element: Any) -> str | None:
    """Return the name of a topic; None if its id is unknown."""
    if element.__class__ is str:
        name: str = element
        return name
    name = getattr(element, described.name) if described.name else ""
    if name or not described.topic_id:
        return name
    topic_id = getattr(element, described.topic_id)
    return "" if topic_id == _NO_ID else call.node.image.topic_name(topic_id)


def _has_partition(described: _TopicList, element: Any, partition: int) -> bool:
    """Return whether a topic has a partition, or does not name its partitions."""
    if not described.partitions:
        return True
    found = getattr(element, described.partitions) or ()
    name = described.partition
    if not name:
        return partition in found
    for each in found:  # noqa: SIM110 - faster than any()
        if getattr(each, name) == partition:
            return True
    return False
