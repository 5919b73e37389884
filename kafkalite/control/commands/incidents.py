"""Commands that cause incidents: expelled members, fenced producers, rebalances and reloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from kafkalite.cluster import incidents
from kafkalite.config.typed_json import About
from kafkalite.control.command_table import (
    CommandError,
    Family,
    Row,
    Words,
    refusals_as_errors,
    running_cluster,
    write_answers,
)
from kafkalite.control.group_reader import find_group
from kafkalite.control.turns import in_turns
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.ports.texts import count_text
from kafkalite.protocol.acl_operations import Entity

if TYPE_CHECKING:
    from kafkalite.cluster.cluster import Cluster
    from kafkalite.coordinator.runtime import CoordinatorRuntime
    from kafkalite.server.broker import Broker

_CAUSE: Final = "a command"
_GROUPS, _TRANSACTIONS, _SHARES = "group", "transaction", "share"
_KINDS: Final = {_GROUPS: Entity.GROUP, _TRANSACTIONS: Entity.TRANSACTIONAL_ID}
_MAX_QUOTED: Final = 249


@dataclass(frozen=True, slots=True)
class ExpelledMember:
    """A member that was removed from its group."""

    group_id: Annotated[str, About("Id of the group.")]
    member_id: Annotated[str, About("Id of the member.")]


@dataclass(frozen=True, slots=True)
class ExpelMember:
    """Remove a member from its group, as if its session had ended.

    Its next request gets UNKNOWN_MEMBER_ID, and the other members rebalance.
    """

    member: Annotated[str, About("id of the member", metavar="MEMBER")]
    group: Annotated[
        str | None, About("id of the group [the one that has the member]", metavar="ID")
    ] = None

    async def perform(self, broker: Broker) -> ExpelledMember:
        """Remove the member; raises CommandError if no group has it."""
        cluster = running_cluster(broker)
        group_id = await self._group_of_member(cluster)
        with refusals_as_errors():
            incidents.expel(cluster, group_id, (self.member,), _CAUSE)
        await write_answers()
        return ExpelledMember(group_id, self.member)

    async def _group_of_member(self, cluster: Cluster) -> str:
        known: list[str] = []
        if self.group is not None:
            known = [*find_group(cluster, self.group).members]
            if self.member in known:
                return self.group
        else:
            for shard in cluster.groups.shards():
                async for group_id in in_turns(tuple(shard.machine.directory.groups)):
                    if shard.machine.group(group_id) is None:
                        continue  # it was deleted meanwhile
                    members = find_group(cluster, group_id).members
                    if self.member in members:
                        return group_id
                    known.extend(members)
        place = "any group" if self.group is None else f"group {self.group[:_MAX_QUOTED]!r}"
        raise CommandError(
            f"there is no member {self.member[:_MAX_QUOTED]!r} in {place}"
            f"{similar_names_hint(self.member, known)}"
        )


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """A transactional id whose producer was fenced."""

    transactional_id: Annotated[str, About("The transactional id.")]
    producer_id: Annotated[int, About("Id of the producer that may write next.")]
    producer_epoch: Annotated[int, About("Epoch that no client has.")]


@dataclass(frozen=True, slots=True)
class FenceProducer:
    """Fence the producer of a transactional id by a later epoch; an open transaction is aborted."""

    transactional_id: Annotated[str, About("transactional id", metavar="ID")]

    async def perform(self, broker: Broker) -> FencedProducer:
        """Fence the producer; raises CommandError for an unknown id."""
        cluster = running_cluster(broker)
        _check_coordinated(cluster, Entity.TRANSACTIONAL_ID, self.transactional_id)
        with refusals_as_errors(f"{self.transactional_id[:_MAX_QUOTED]!r} cannot be fenced"):
            producer = incidents.fence(cluster, self.transactional_id, _CAUSE)
        await write_answers()
        return FencedProducer(self.transactional_id, *producer)


@dataclass(frozen=True, slots=True)
class BegunRebalance:
    """A group that rebalances."""

    group_id: Annotated[str, About("Id of the group.")]
    members: Annotated[int, About("Number of its members.")]


@dataclass(frozen=True, slots=True)
class RebalanceGroup:
    """Begin a rebalance of a group, unless one has begun."""

    group: Annotated[str, About("id of the group", metavar="ID")]

    async def perform(self, broker: Broker) -> BegunRebalance:
        """Begin it; raises CommandError for an unknown group, and for one without members."""
        cluster = running_cluster(broker)
        members = len(find_group(cluster, self.group).members)
        with refusals_as_errors():
            has_begun = incidents.begin_rebalance(cluster, self.group, _CAUSE)
        if not has_begun:
            raise CommandError(f"group {self.group[:_MAX_QUOTED]!r} has no members")
        await write_answers()
        return BegunRebalance(self.group, members)


@dataclass(frozen=True, slots=True)
class ReloadedCoordinator:
    """A coordinator that was loaded again."""

    coordinator: Annotated[str, About("`group`, `transaction` or `share`.")]
    partitions: Annotated[tuple[int, ...], About("Partitions of its log that were loaded again.")]


@dataclass(frozen=True, slots=True)
class ReloadCoordinator:
    """Load a coordinator again from its log, as after a change of its node.

    What is not in the log is lost: classic groups that rebalance are stable again, and sessions of
    members begin again. Waiting requests get COORDINATOR_LOAD_IN_PROGRESS.
    """

    coordinator: Annotated[
        str,
        About(
            "coordinator of groups, of transactions or of share partitions",
            choices=(_GROUPS, _TRANSACTIONS, _SHARES),
        ),
    ]
    id: Annotated[
        str | None,
        About("only the part that has this group or transactional id [all parts]", metavar="ID"),
    ] = None

    def __post_init__(self) -> None:
        if self.id is not None and self.coordinator not in _KINDS:
            raise CommandError(f"the {self.coordinator} coordinator is loaded as a whole: omit id")

    async def perform(self, broker: Broker) -> ReloadedCoordinator:
        """Load it; raises CommandError if no node coordinates the id."""
        cluster = running_cluster(broker)
        if self.id is not None:
            _check_coordinated(cluster, _KINDS[self.coordinator], self.id)
        coordinator: CoordinatorRuntime[Any] = cluster.shares
        if self.coordinator in _KINDS:
            coordinator = incidents.coordinator_of(cluster, _KINDS[self.coordinator])
        partitions = (
            [each.partition for each in coordinator.shards()]
            if self.id is None
            else [coordinator.partition_for(self.id)]
        )
        with refusals_as_errors(f"the {self.coordinator} coordinator cannot be loaded again"):
            for partition in partitions:
                coordinator.reload(partition)
        await write_answers()
        return ReloadedCoordinator(self.coordinator, tuple(partitions))


def _check_coordinated(cluster: Cluster, kind: Entity, name: str) -> None:
    """Raise CommandError if no client has used a coordinator of this kind yet."""
    topic = incidents.COORDINATOR_TOPICS[kind]
    if topic not in cluster.metadata.image.topics:
        raise CommandError(
            f"{name[:_MAX_QUOTED]!r} has no coordinator: the topic {topic} does not exist yet"
        )


def _lines_of_fenced(fenced: FencedProducer, _: object) -> list[str]:
    producer = f"epoch {fenced.producer_epoch} of producer {fenced.producer_id}"
    return [f"{fenced.transactional_id}: fenced by {producer}"]


def _lines_of_reload(reloaded: ReloadedCoordinator, _: object) -> list[str]:
    parts = count_text(len(reloaded.partitions), "partition")
    return [f"{reloaded.coordinator} coordinator: {parts} loaded again"]


_PATH = "/v1/incidents"

COMMANDS = Family(
    (
        Row(
            ExpelMember,
            ExpelledMember,
            "POST",
            f"{_PATH}/expel",
            (Words("incident expel", "Remove a member from its group.", ("member",)),),
            lambda expelled, _: [f"{expelled.group_id}: member {expelled.member_id} expelled"],
            {"member": "m", "group": "g"},
        ),
        Row(
            FenceProducer,
            FencedProducer,
            "POST",
            f"{_PATH}/fence",
            (
                Words(
                    "incident fence",
                    "Fence the producer of a transactional id.",
                    ("transactional_id",),
                ),
            ),
            _lines_of_fenced,
            {"transactional_id": "t"},
        ),
        Row(
            RebalanceGroup,
            BegunRebalance,
            "POST",
            f"{_PATH}/rebalance",
            (Words("incident rebalance", "Begin a rebalance of a group.", ("group",)),),
            lambda begun, _: [
                f"{begun.group_id}: rebalances with {count_text(begun.members, 'member')}"
            ],
            {"group": "g"},
        ),
        Row(
            ReloadCoordinator,
            ReloadedCoordinator,
            "POST",
            f"{_PATH}/reload",
            (Words("incident reload", "Load a coordinator again from its log.", ("coordinator",)),),
            _lines_of_reload,
            {"coordinator": "group"},
        ),
    ),
    {"incident": "Expel members, fence producers, and cause rebalances and reloads."},
)
