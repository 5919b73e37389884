"""`kafkalite export`: print the state of any Kafka cluster in the form of `--state`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cli.argument_types import whole_number
from kafkalite.cli.cluster_options import (
    add_cluster_options,
    add_json_option,
    print_text,
    run_with_client,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.cli.cluster_options import ClusterAccess
    from kafkalite.cli.masks import Mask
    from kafkalite.client.client import KafkaClient
    from kafkalite.client.cluster_contents import QuotasOfEntity
    from kafkalite.client.epochs import TopicPartition
    from kafkalite.client.records import ConsumerRecord
    from kafkalite.client.topics import TopicDescription
    from kafkalite.control.declared_state.shape import StateGroup, StateQuotas, StateTopic
    from kafkalite.security.acls import Acl

_MAX_IDLE_POLLS: Final = 30
"""Fetches of one second each without a record after which an export fails."""
_SHARE: Final = "share"
_QUOTA_FIELDS: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}


def add_options(parser: ArgumentParser) -> None:
    """Add the options of `kafkalite export`."""
    parser.add_argument(
        "--records",
        type=whole_number,
        default=0,
        metavar="NUMBER",
        help="print records, those among the last NUMBER offsets of each partition [0]",
    )
    parser.add_argument(
        "--mask",
        action="append",
        metavar="[TOPIC:]FIELD=HOW",
        help="mask key, value, headers.NAME, or a field of JSON such as value.card.number, by "
        "drop, fixed:TEXT or hash:SEED; repeatable",
    )
    add_json_option(parser, "print JSON in place of YAML")
    add_cluster_options(parser)


def run(arguments: Namespace) -> None:
    """Print the state; raises SystemExit if that fails."""

    async def export(client: KafkaClient, cluster: ClusterAccess) -> None:
        from kafkalite.cli.masks import parse_mask  # noqa: PLC0415 - imported if needed

        if arguments.records < 0:
            raise ValueError(f"--records must be at least 0, not {arguments.records}")
        masks = [parse_mask(text) for text in arguments.mask or ()]
        print_text(
            await state_text_of(
                client, cluster, count=arguments.records, masks=masks, as_json=arguments.json
            )
        )

    run_with_client(arguments, export)


async def state_text_of(
    client: KafkaClient,
    cluster: ClusterAccess,
    *,
    count: int = 0,
    masks: Sequence[Mask] = (),
    as_json: bool = False,
) -> str:
    """Return the state of a cluster as text, with records among the last `count` offsets.

    Raises ClientError, UnreachableError, and ValueError for a mask that cannot be applied.
    """
    from kafkalite.client.cluster_contents import (  # noqa: PLC0415 - imported if needed
        cluster_features,
        list_acls,
        list_quotas,
        list_scram_users,
    )
    from kafkalite.client.topics import list_topics  # noqa: PLC0415 - as above
    from kafkalite.control.declared_state.shape import State, StateUser  # noqa: PLC0415 - as above
    from kafkalite.control.declared_state.text import state_text  # noqa: PLC0415 - as above

    features = await cluster_features(client)
    topics = [each for each in await list_topics(client) if not each.is_internal]
    if masks:
        from kafkalite.cli.masks import check_topics  # noqa: PLC0415 - imported if needed

        check_topics(masks, [each.name for each in topics])
    users = await list_scram_users(client, features)
    state = State(
        brokers=len((await client.metadata()).brokers),
        features=dict(features.levels),
        topics=await _topics(client, cluster, topics, count, masks),
        groups=await _groups(client, {each.name for each in topics}),
        acls=tuple(map(_acl, await list_acls(client, features))),
        users={name: StateUser(mechanisms=mechanisms) for name, mechanisms in users.items()},
        quotas=tuple(map(_quotas, await list_quotas(client, features))),
    )
    return state_text(state, as_json=as_json)


async def _topics(
    client: KafkaClient,
    cluster: ClusterAccess,
    topics: Sequence[TopicDescription],
    count: int,
    masks: Sequence[Mask],
) -> dict[str, StateTopic]:
    from kafkalite.client.cluster_contents import topic_settings  # noqa: PLC0415 - as needed
    from kafkalite.client.epochs import TopicPartition  # noqa: PLC0415 - as above
    from kafkalite.client.fetches import READ_COMMITTED  # noqa: PLC0415 - as above
    from kafkalite.client.offsets import end_offsets, first_offsets  # noqa: PLC0415 - as above
    from kafkalite.control.declared_state.shape import StateTopic  # noqa: PLC0415 - as above

    settings = await topic_settings(client, [each.name for each in topics])
    partitions = [
        TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions
    ]
    ends = await end_offsets(client, partitions, READ_COMMITTED)
    starts = await first_offsets(client, partitions) if count else {}
    found: dict[str, StateTopic] = {}
    for topic in topics:
        own = [each for each in partitions if each.topic == topic.name]
        ranges = {
            each: (max(starts[each], ends[each] - count), ends[each])
            for each in own
            if each in starts and each in ends and starts[each] < ends[each]
        }
        records = await _last_records(cluster, ranges)
        state_records: list[Any] = []
        next_offsets: dict[TopicPartition, int] = {}
        for partition in own:
            masked_records, end = _state_records(records.get(partition, ()), masks)
            state_records += masked_records
            next_offsets[partition] = end
        found[topic.name] = StateTopic(
            partitions=len(topic.partitions),
            replication_factor=topic.replication_factor,
            config=dict[str, object](settings.get(topic.name, {})),
            end_offsets={
                f"{each.partition}": ends[each]
                for each in own
                if each in ends and ends[each] != next_offsets[each]
            },
            records=tuple(state_records),
        )
    return found


async def _last_records(
    cluster: ClusterAccess, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, list[ConsumerRecord]]:
    """Return the committed records in ranges of offsets; raises ClientError."""
    if not ranges:
        return {}
    from kafkalite.client.consumer import PartitionConsumer  # noqa: PLC0415 - as needed
    from kafkalite.client.errors import TimedOutError  # noqa: PLC0415 - as above

    found: dict[TopicPartition, list[ConsumerRecord]] = {each: [] for each in ranges}
    async with PartitionConsumer(
        cluster.servers,
        auto_offset_reset="earliest",
        isolation="read_committed",
        access=cluster.access,
    ) as consumer:
        consumer.assign(ranges)
        for partition, (start, _) in ranges.items():
            consumer.seek(partition, start)
        pending, idle_polls = deque(ranges), 0
        while pending:
            records = await consumer.poll()
            idle_polls = 0 if records else idle_polls + 1
            if idle_polls == _MAX_IDLE_POLLS:
                raise TimedOutError(f"no record of {pending[0]} arrived in {idle_polls} s")
            for record in records:
                if record.offset < ranges[record.partition][1]:
                    found[record.partition].append(record)
            while pending:
                position = (await consumer.position(pending[0])).offset
                if position < ranges[pending[0]][1]:
                    break
                pending.popleft()
    return found


def _state_records(
    records: Sequence[ConsumerRecord], masks: Sequence[Mask]
) -> tuple[list[Any], int]:
    """Return the records of a partition in the form of a state, and the offset after them."""
    from kafkalite.cli.masks import masked  # noqa: PLC0415 - imported if needed
    from kafkalite.control.declared_state.text import record_of  # noqa: PLC0415 - as above

    found, next_offset = [], 0
    for record in records:
        each = masked(record, masks)
        found.append(
            record_of(
                partition=each.partition.partition,
                offset=None if each.offset == next_offset else each.offset,
                timestamp_ms=each.timestamp_ms,
                key=each.key,
                value=each.value,
                headers=each.headers,
            )
        )
        next_offset = each.offset + 1
    return found, next_offset


async def _groups(client: KafkaClient, topics: set[str]) -> dict[str, StateGroup]:
    """Return the groups that have committed offsets of these topics."""
    from kafkalite.client.groups import commits_of_group, list_groups  # noqa: PLC0415 - as needed
    from kafkalite.control.declared_state.shape import StateGroup  # noqa: PLC0415 - as above

    found: dict[str, StateGroup] = {}
    for group in await list_groups(client):
        if group.type == _SHARE:
            continue  # its state is that of its share partitions
        offsets: dict[str, dict[str, int]] = {}
        metadata: dict[str, dict[str, str]] = {}
        for (topic, index), commit in sorted(
            (await commits_of_group(client, group.group_id)).items()
        ):
            if topic not in topics:
                continue
            offsets.setdefault(topic, {})[f"{index}"] = commit.offset
            if commit.metadata:
                metadata.setdefault(topic, {})[f"{index}"] = commit.metadata
        if offsets:
            found[group.group_id] = StateGroup(offsets=offsets, metadata=metadata)
    return found


def _acl(acl: Acl) -> Any:  # noqa: ANN401 - imported if needed
    from kafkalite.control.declared_state.shape import StateAcl  # noqa: PLC0415 - as needed
    from kafkalite.security.acls import (  # noqa: PLC0415 - as above
        OPERATION_NAMES,
        PATTERN_NAMES,
        PERMISSION_NAMES,
        RESOURCE_NAMES,
        name_of,
    )

    return StateAcl(
        principal=acl.principal,
        operation=name_of(acl.operation, OPERATION_NAMES),
        resource_type=name_of(acl.resource_type, RESOURCE_NAMES),
        resource_name=acl.resource_name,
        pattern_type=name_of(acl.pattern_type, PATTERN_NAMES),
        host=acl.host,
        permission=name_of(acl.permission, PERMISSION_NAMES),
    )


def _quotas(each: QuotasOfEntity) -> StateQuotas:
    from kafkalite.control.declared_state.shape import (  # noqa: PLC0415 - as needed
        DEFAULT_ENTITY,
        StateQuotas,
    )

    names = {
        _QUOTA_FIELDS[kind]: DEFAULT_ENTITY if name is None else name for kind, name in each.entity
    }
    return StateQuotas(quotas=dict(each.quotas), **names)
