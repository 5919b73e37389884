"""Reset of a broker: back to the state after its start, while clients stay connected."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from kafkalite.apis.groups.admin import delete_group
from kafkalite.cluster.cluster import TopicError
from kafkalite.control.command_table import (
    CommandError,
    refusals_as_errors,
    running_cluster,
    write_answers,
)
from kafkalite.control.internal_requests import result_of
from kafkalite.control.turns import chunks, in_turns
from kafkalite.control.waiting import Changes, deadline_after
from kafkalite.coordinator.contract import Event
from kafkalite.metadata.client_quotas import QuotaAlteration
from kafkalite.metadata.image import ResourceType
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kafkalite.metadata.scram_credentials import ScramDeletion
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.server.addresses import AddressError
from kafkalite.server.settings import SettingsError
from kafkalite.transactions.state import PREPARED_STATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.coordinator.runtime import CoordinatorRuntime
    from kafkalite.groups.shard import GroupShard
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.metadata.image import MetadataImage, TopicImage
    from kafkalite.server.broker import Broker
    from kafkalite.transactions.shard import TransactionShard

CAUSE: Final = "a reset"
"""The cause of deletions in the history."""

_ENTRIES_PER_TURN: Final = 20
_MEMBERS_PER_TURN: Final = 50
_CHANGES_PER_TURN: Final = 1_000
_MAX_EVENTS: Final = 100
"""The maximum number of topics whose deletion is in the history."""
_MAX_ATTEMPTS: Final = 10
_MAX_NAMED: Final = 3
_ALL: Final = "*"
_MARKERS_TIMEOUT_MS: Final = 10_000


class ResetResult(NamedTuple):
    """What a reset has deleted and created, each sorted."""

    deleted_topics: tuple[str, ...]
    created_topics: tuple[str, ...]
    """Topics of the settings and of the declared state, which are created again."""
    deleted_groups: tuple[str, ...]
    deleted_transactional_ids: tuple[str, ...]


async def reset(
    broker: Broker, topics: str | None = None, groups: str | None = None
) -> ResetResult:
    """Reset a broker, or only the topics and groups whose names match a pattern.

    Raises CommandError if a part cannot be reset, such as a node whose port is taken.
    """
    async with broker.state_lock:
        return await _reset(broker, topics, groups)


async def _reset(broker: Broker, topics: str | None, groups: str | None) -> ResetResult:
    cluster = running_cluster(broker)
    with refusals_as_errors():
        if topics is None and groups is None:
            return await _reset_all(broker, cluster)
        if groups is not None:
            _check_coordinator(cluster.groups, OFFSETS_TOPIC)
        deleted_groups = () if groups is None else await _delete_groups(cluster, groups)
        deleted = () if topics is None else await _delete_topics(cluster, topics)
        created = () if topics is None else await _create_topics(broker, cluster, topics)
        created += await _load_state(broker, cluster, topics, groups)
    await write_answers()
    return ResetResult(deleted, tuple(sorted(created)), deleted_groups, ())


async def _reset_all(broker: Broker, cluster: Cluster) -> ResetResult:
    await _start_nodes(broker, cluster)
    _check_coordinator(cluster.groups, OFFSETS_TOPIC)
    _check_coordinator(cluster.transactions, TRANSACTION_STATE_TOPIC)
    broker.clear_faults()
    broker.nodes.heal_links()
    await write_answers()  # delayed requests are served before their topics are deleted
    # Before the topics, so that no topic has committed offsets that must be deleted with it.
    deleted_groups = await _delete_groups(cluster, _ALL)
    deleted_topics = await _delete_topics(cluster, _ALL)
    # After the topics, so that their logs need no markers, and before new topics of their names.
    deleted_ids = await _delete_transactional_ids(cluster)
    await _restore_metadata(broker, cluster.metadata)
    created_topics = await _create_topics(broker, cluster, _ALL)
    created_topics += await _load_state(broker, cluster, None, None)
    broker.clear_request_log()
    cluster.forget_pushed_metrics()
    await write_answers()
    created = tuple(sorted(created_topics))
    return ResetResult(deleted_topics, created, deleted_groups, deleted_ids)


async def _start_nodes(broker: Broker, cluster: Cluster) -> None:
    """Start nodes that are stopped, connect isolated ones, and let all follow their leaders."""
    control = cluster.node_control
    for node in tuple(cluster.nodes.values()):
        try:
            await broker.nodes.start(node.id)
        except AddressError as error:
            raise CommandError(f"node {node.id} cannot be started: {error}") from error
        if node.is_metadata_frozen:
            control.thaw_metadata(node.id)
        if node.is_replication_paused:
            control.resume_replication(node.id)


def _check_coordinator(coordinator: CoordinatorRuntime[Any], topic: str) -> None:
    """Raise CommandError unless all partitions have coordinators: the others would keep a part."""
    missing = coordinator.partitions_without_shard()
    if missing:
        raise CommandError(
            f"a reset needs all coordinators: no running node leads partition {missing[0]} of "
            f"{topic}, or it cannot be read"
        )


# Topics


async def _delete_topics(cluster: Cluster, pattern: str) -> tuple[str, ...]:
    """Delete the topics that match a pattern, except Kafka's internal ones; return their names."""
    matching = [
        each
        for each in cluster.metadata.image.topics.values()
        if not each.is_internal and fnmatchcase(each.name, pattern)
    ]
    now_ms = cluster.clock.now_ms()
    for each in matching[:_MAX_EVENTS]:
        text = f"topic {each.name} is deleted by {CAUSE}"
        event = Event(each.name, "reset", text, {"rule": "reset"}, Entity.TOPIC)
        cluster.history.add(event, now_ms)
    await _delete(cluster, matching)
    return tuple(sorted(each.name for each in matching))


async def _delete(cluster: Cluster, topics: Sequence[TopicImage]) -> None:
    for number, chunk in enumerate(chunks(topics, _ENTRIES_PER_TURN)):
        if number:
            await asyncio.sleep(0)
        # A client may have deleted one meanwhile: its error has no effect.
        cluster.metadata.delete_topics([each.topic_id for each in chunk])


async def _create_topics(broker: Broker, cluster: Cluster, pattern: str) -> tuple[str, ...]:
    """Create the topics of the settings that match a pattern, empty; return their names."""
    required = {
        name: partitions
        for name, partitions in broker.initial_topics.items()
        if fnmatchcase(name, pattern)
    }
    existing = cluster.metadata.image.topics
    # Clients may have created some of them meanwhile, with other numbers of partitions.
    await _delete(cluster, [existing[name] for name in required if name in existing])
    try:
        for chunk in chunks(required.items(), _ENTRIES_PER_TURN):
            cluster.create_missing_topics(dict(chunk))
            await asyncio.sleep(0)
    except TopicError as error:
        raise CommandError(str(error)) from error
    return tuple(sorted(required))


async def _load_state(
    broker: Broker, cluster: Cluster, topics: str | None, groups: str | None
) -> tuple[str, ...]:
    """Create the declared state, or what matches the patterns; return the names of its topics."""
    state = broker.settings.state
    if state is None:
        return ()
    is_whole = topics is None and groups is None
    pattern = _ALL if is_whole else topics or ""
    names = tuple(name for name in state.topics if fnmatchcase(name, pattern))
    existing = cluster.metadata.image.topics
    await _delete(cluster, [existing[name] for name in names if name in existing])
    try:
        await state.load(broker, topics, groups)
    except SettingsError as error:
        raise CommandError(str(error)) from error
    return names


# Groups and transactions


async def _delete_groups(cluster: Cluster, pattern: str) -> tuple[str, ...]:
    """Delete the groups that match a pattern, also those with members; return their ids."""
    matching = [
        (group_id, shard)
        for shard in cluster.groups.shards()
        async for group_id in in_turns(tuple(shard.machine.directory.groups))
        if fnmatchcase(group_id, pattern)
    ]
    async for group_id, shard in in_turns(matching, _ENTRIES_PER_TURN):
        await _delete_group(cluster, group_id, shard)
    return tuple(sorted(group_id for group_id, _ in matching))


async def _delete_group(cluster: Cluster, group_id: str, shard: ActiveShard[GroupShard]) -> None:
    for attempt in range(_MAX_ATTEMPTS):
        try:
            has_members = True
            while has_members:
                has_members = shard.write_immediately(
                    lambda machine, now_ms: machine.remove_members(
                        group_id, now_ms, _MEMBERS_PER_TURN
                    )
                )
                if has_members:
                    await asyncio.sleep(0)
            deletion = delete_group(cluster.nodes[shard.leader_id], group_id, CAUSE)
            if deletion is not None:
                await result_of(deletion)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return  # a client has deleted it meanwhile
            # A member may have joined again while the state of a share group was deleted.
            if error.code is not ErrorCode.NON_EMPTY_GROUP or attempt == _MAX_ATTEMPTS - 1:
                raise
        else:
            return


async def _delete_transactional_ids(cluster: Cluster) -> tuple[str, ...]:
    """Abort all transactions, and remove the transactional ids; return them."""
    pending = [
        (each.transactional_id, shard)
        for shard in cluster.transactions.shards()
        for each in shard.machine.transactions()
    ]
    names = tuple(sorted(name for name, _ in pending))
    deadline, is_first_pass = deadline_after(_MARKERS_TIMEOUT_MS), True
    with Changes(cluster.transactions.watchers) as changes:
        while pending:
            pending = [
                each
                async for each in in_turns(pending, _ENTRIES_PER_TURN)
                if not _is_removed(*each, writes_markers=is_first_pass)
            ]
            is_first_pass = False
            if pending and not await changes.next(deadline):
                raise CommandError(
                    f"transactions are open after {_MARKERS_TIMEOUT_MS // 1000} s, because their "
                    "markers cannot be written: "
                    f"{', '.join(name for name, _ in pending[:_MAX_NAMED])}"
                )
    return names


def _is_removed(
    transactional_id: str, shard: ActiveShard[TransactionShard], *, writes_markers: bool
) -> bool:
    """Abort the open transaction of an id, or remove the id; return whether it is removed.

    While markers are being written, nothing is written, so that no watcher is called. With
    `writes_markers`, they are requested again, because a fault may have lost a request.
    """
    try:
        is_prepared = shard.machine.describe(transactional_id).state in PREPARED_STATES
    except KafkaError:
        return True  # it has expired meanwhile
    return (writes_markers or not is_prepared) and shard.write_immediately(
        lambda machine, now_ms: machine.reset(transactional_id, now_ms)
    )


# Settings that clients have changed


async def _restore_metadata(broker: Broker, metadata: MetadataController) -> None:
    """Restore configurations, quotas, ACLs and users as they were after the start.

    Delegation tokens are removed.
    """
    initial = broker.initial_image
    assert initial is not None
    image = metadata.image
    while metadata.image.delegation_tokens:
        metadata.remove_all_delegation_tokens(_CHANGES_PER_TURN)
        await asyncio.sleep(0)
    configs = {
        each: initial.configs.get(each, {})
        for each in image.configs.keys() | initial.configs.keys()
        if each.type is not ResourceType.TOPIC
        and image.configs.get(each, {}) != initial.configs.get(each, {})
    }
    if configs:
        _check(metadata.replace_configs(configs))
    await _restore_quotas(metadata, initial)
    await _restore_acls(metadata, initial)
    if image.scram_credentials != initial.scram_credentials:
        changed = [
            ScramDeletion(name, mechanism)
            for (mechanism, name), credential in image.scram_credentials.items()
            if initial.scram_credentials.get((mechanism, name)) != credential
        ]
        for chunk in chunks(changed, _CHANGES_PER_TURN):
            metadata.alter_scram_credentials(chunk, [])
            await asyncio.sleep(0)
        broker.store_initial_users()


async def _restore_quotas(metadata: MetadataController, initial: MetadataImage) -> None:
    now, before = metadata.image.client_quotas, initial.client_quotas
    changed = [each for each in now.keys() | before.keys() if now.get(each) != before.get(each)]
    for chunk in chunks(changed, _CHANGES_PER_TURN):
        alterations = [
            QuotaAlteration(
                tuple(entity),
                tuple(
                    (key, before.get(entity, {}).get(key))
                    for key in now.get(entity, {}).keys() | before.get(entity, {}).keys()
                ),
            )
            for entity in chunk
        ]
        _check(metadata.alter_client_quotas(alterations))
        await asyncio.sleep(0)


async def _restore_acls(metadata: MetadataController, initial: MetadataImage) -> None:
    now, before = metadata.image.acls, initial.acls
    if now == before:
        return
    required = frozenset(before.values())
    for ids in chunks(
        [acl_id for acl_id, acl in now.items() if acl not in required], _CHANGES_PER_TURN
    ):
        metadata.delete_acls(ids)
        await asyncio.sleep(0)
    existing = frozenset(now.values())
    for acls in chunks([acl for acl in before.values() if acl not in existing], _CHANGES_PER_TURN):
        metadata.create_acls(acls)
        await asyncio.sleep(0)


def _check(errors: Mapping[Any, KafkaError | None]) -> None:
    for error in errors.values():
        if error is not None:
            raise error
