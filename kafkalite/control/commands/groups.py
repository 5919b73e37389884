"""Commands about groups: list, show and delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import CommandError, Family, Row, running_cluster, sentence
from kafkalite.control.commands.explain import lines_of_failure
from kafkalite.control.group_reader import (
    UnknownGroupError,
    describe_group,
    find_group,
    list_groups,
    state_of,
)
from kafkalite.control.group_status import DEAD, EMPTY, STATES, GroupList, GroupStatus, dead_group
from kafkalite.control.internal_requests import answer_of
from kafkalite.control.turns import answer_pieces
from kafkalite.control.waiting import MAX_WAIT_MS, becomes_true
from kafkalite.ports.texts import count_text
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker

_MAX_MEMBERS: Final = 2**31 - 1
_MAX_HISTORY_LINES: Final = 10
_STATES_WITHOUT_MEMBERS: Final = (DEAD, EMPTY)


@dataclass(frozen=True, slots=True)
class ListGroups:
    """List the groups of all types by id."""

    async def perform(self, broker: Broker) -> GroupList:
        """Return all groups by id."""
        return GroupList(tuple(await list_groups(broker)))


@dataclass(frozen=True, slots=True)
class ShowGroup:
    """Return a group with its members, its committed offsets and its lag.

    With `wait_ms`, wait until the group exists and has the `state` and the number of `members` that
    are given, and return the group as it is then.
    """

    group: Annotated[str, About("id of the group", metavar="ID")]
    state: Annotated[
        str | None,
        About("wait for this state; a group that does not exist is Dead", choices=STATES),
    ] = None
    members: Annotated[
        int | None, About("wait for this many members", minimum=0, maximum=_MAX_MEMBERS)
    ] = None
    wait_ms: Annotated[
        int,
        About(
            "time limit of the wait in milliseconds, in real time", minimum=0, maximum=MAX_WAIT_MS
        ),
    ] = 0

    def __post_init__(self) -> None:
        if self.state in _STATES_WITHOUT_MEMBERS and self.members:
            raise CommandError(f"a group in state {self.state} has no members")

    async def perform(self, broker: Broker) -> GroupStatus:
        """Return the group; raises UnknownGroupError unless the command asks for state Dead."""
        await self.wait(broker)
        try:
            return await describe_group(broker, self.group)
        except UnknownGroupError:
            if self.state != DEAD:
                raise
            return dead_group(self.group)

    async def wait(self, broker: Broker) -> bool:
        """Wait until the group has the state and the members; return False if the time is over."""
        cluster = running_cluster(broker)
        return await becomes_true(
            lambda: self._is_met(*state_of(cluster, self.group)),
            cluster.groups.watchers,
            self.wait_ms,
        )

    def _is_met(self, state: str, members: int) -> bool:
        has_state = state != DEAD if self.state is None else state == self.state
        return has_state and self.members in {None, members}

    async def expected(self, broker: Broker) -> GroupStatus:
        """Return the group as `perform` does; raises AssertionError if it is another one."""
        if not await self.wait(broker):
            raise AssertionError("\n".join(await self._failure(broker)))
        return await self.perform(broker)

    async def _failure(self, broker: Broker) -> list[str]:
        """Return the lines of a failed expectation, with the history of the group."""
        try:
            found = repr(await describe_group(broker, self.group))
        except UnknownGroupError as error:
            found = str(error)
        state = "to exist" if self.state is None else f"to be {self.state}"
        members = "" if self.members is None else f" with {count_text(self.members, 'member')}"
        seconds = self.wait_ms / 1000
        history = broker.history.about(self.group, _MAX_HISTORY_LINES)
        return [
            f"expected group {self.group!r} {state}{members} within {seconds:g} s: {found}",
            *lines_of_failure(history),
        ]


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    """A group that was deleted."""

    group_id: Annotated[str, About("Id of the group.")]


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a group without members, with its committed offsets."""

    group: Annotated[str, About("id of the group", metavar="ID")]

    async def perform(self, broker: Broker) -> DeletedGroup:
        """Delete the group; raises UnknownGroupError, and CommandError for one with members."""
        cluster = running_cluster(broker)
        node = cluster.nodes[find_group(cluster, self.group).shard.leader_id]
        request = DeleteGroupsRequest(groups_names=[self.group])
        (row,) = (await answer_of(broker, request, node)).results
        if row.error_code:
            raise CommandError(sentence(KafkaError(ErrorCode(row.error_code))))
        return DeletedGroup(self.group)


_PATH, _PATH_OF_ONE = "/v1/groups", "/v1/groups/{group}"

COMMANDS = Family(
    (
        Row(ListGroups, GroupList, "GET", _PATH, pieces=answer_pieces),
        Row(
            ShowGroup,
            GroupStatus,
            "GET",
            _PATH_OF_ONE,
            not_found=UnknownGroupError,
            pieces=answer_pieces,
        ),
        Row(DeleteGroup, DeletedGroup, "DELETE", _PATH_OF_ONE, not_found=UnknownGroupError),
    )
)
