"""GroupRequests: the requests of the members of groups, from captures without a broker."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.capture.reading.summary import named_topics
from kafkalite.lab.checker.captured_history import observation
from kafkalite.ports.units import NANOSECONDS_PER_MILLISECOND
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from kafkalite.capture.formats.capture_files import Reporter
    from kafkalite.lab.checker.collecting import Observation

GROUP_APIS: Final = frozenset(
    int(each)
    for each in (
        ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT,
    )
)  # fmt: skip
"""The APIs whose requests name the group in their field `group_id`."""


class GroupRequests:
    """The requests that name a group, by group, in the order of their answers."""

    def __init__(self) -> None:
        self.topic_names: dict[bytes, str] = {}
        self._requests: dict[str, list[Observation]] = defaultdict(list)

    def add(self, each: Observation) -> None:
        """Add a request with its answer."""
        if each.response is not None:
            self.topic_names.update(named_topics(each.response))
        if each.api_key in GROUP_APIS and each.request is not None:
            self._requests[each.request.group_id].append(each)

    @property
    def groups(self) -> list[str]:
        """The ids of all groups, in the order of their first request."""
        return [*self._requests]

    def of(self, group: str) -> list[Observation]:
        """Return the requests of a group; those without an answer are at the time of sending."""
        return sorted(self._requests.get(group, ()), key=time_of)


def captured_requests(
    paths: Iterable[str | os.PathLike[str]], problems: Reporter, *, ports: Iterable[int] = ()
) -> GroupRequests:
    """Return the requests of groups in captures; `ports` are those of brokers, as for `show`."""
    found = GroupRequests()
    for exchange in exchanges(read(paths, problems, ports=ports), problems):
        found.add(observation(exchange))
    return found


def time_of(each: Observation) -> int:
    """Return when a request was answered, or sent if it was not, in nanoseconds."""
    return each.event.answered_ns or each.event.sent_ns


def milliseconds(at_ns: int) -> int:
    """Return a time in milliseconds since the Unix epoch."""
    return at_ns // NANOSECONDS_PER_MILLISECOND
