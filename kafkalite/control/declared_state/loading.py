"""Creates what a state declares in a broker, by the requests that clients would send.

All topics are checked before the first is created. Records are appended with the offsets and the
timestamps of the state, after the checks of produced records.
"""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.command_table import CommandError, running_cluster, sentence
from kafkalite.control.declared_state.shape import DEFAULT_ENTITY, MAX_END_OFFSET, config_texts
from kafkalite.control.internal_requests import answer_of
from kafkalite.control.turns import chunks
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports import turns
from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.key_partition import partition_of_key
from kafkalite.security.acls import (
    OPERATION_NAMES,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    RESOURCE_NAMES,
)
from kafkalite.security.sasl.scram_credentials import SALT_BYTES, SCRAM_BY_NAME, salt_password
from kafkalite.storage.batch import NO_PRODUCER, BatchView, assemble, build_batch
from kafkalite.storage.record_format import NewRecord
from kafkalite.storage.validation import InvalidRecordsError, validate_and_convert

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.control.declared_state.contents import Content
    from kafkalite.control.declared_state.shape import Path, StateGroup
    from kafkalite.control.declared_state.source import LocatedState
    from kafkalite.partitions.partition import Partition
    from kafkalite.server.broker import Broker

_TIMEOUT_MS: Final = 30_000
_BY_DEFAULT: Final = -1
_TOPICS_PER_REQUEST: Final = 100
_RECORDS_PER_BATCH: Final = 500
_NO_LIMIT_MS: Final = 2**63 - 1
_BYTES_PER_BATCH: Final = 256 * 1024
_RECORD_OVERHEAD: Final = 64
_ENTRIES_PER_REQUEST: Final = 500
_NO_GENERATION: Final = -1
_QUOTA_ENTITIES: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}


class Load:
    """The load of one state into one broker."""

    def __init__(self, source: LocatedState, broker: Broker) -> None:
        self._source = source
        self._state = source.state
        self._broker = broker
        self._cluster = running_cluster(broker)
        self._now_ms = broker.clock.now_ms()

    async def run(self, topics: str | None, groups: str | None) -> None:
        """Create everything, or only topics and groups that match; raises StateError."""
        is_whole = topics is None and groups is None
        names = [name for name in self._state.topics if is_whole or _matches(name, topics)]
        counts = self._partition_counts()
        self._check_partitions(counts)
        self._check_authorizer()
        await self._create_topics(names, validate_only=True)
        await self._create_topics(names, validate_only=False)
        for name in names:
            await self._fill(name, counts[name])
        for group_id, group in self._state.groups.items():
            if is_whole or _matches(group_id, groups):
                await self._commit(group_id, group)
        if is_whole:
            await self._create_acls()
            await self._create_users()
            await self._set_quotas()

    # Checks

    def _partition_counts(self) -> dict[str, int]:
        """Return the number of partitions of each topic, also of those that are no part of it."""
        default = self._cluster.config.int("num.partitions")
        counts = dict(self._broker.initial_topics)
        for name, topic in self._state.topics.items():
            if name in counts:
                raise self._source.error(
                    ("topics", name), f"topic {name} is also a topic of the other options"
                )
            counts[name] = topic.partitions or default
        return counts

    def _check_partitions(self, counts: Mapping[str, int]) -> None:
        for name, topic in self._state.topics.items():
            for index in topic.end_offsets:
                self._check_index(("topics", name, "end_offsets", index), name, index, counts)
            for content in self._source.contents[name]:
                if content.partition is not None:
                    path = (*content.path, "partition")
                    self._check_index(path, name, content.partition, counts)
        for group_id, group in self._state.groups.items():
            for field in ("offsets", "metadata"):
                for name, by_index in getattr(group, field).items():
                    for index in by_index:
                        path = ("groups", group_id, field, name, index)
                        self._check_index(path, name, index, counts)
                        if index not in group.offsets.get(name, {}):
                            text = f"partition {index} of {name!r} has metadata, but no offset"
                            raise self._source.error(path, text)

    def _check_index(
        self, path: Path, topic: str, index: str | int, counts: Mapping[str, int]
    ) -> None:
        if topic not in counts:
            known = ", ".join(list(counts)[:5])
            others = f"the topics are {known}" if known else "the state has no topics"
            raise self._source.error(path, f"there is no topic {topic!r}; {others}")
        text = f"{index}"
        if not (text.isascii() and text.isdigit() and int(text[:10]) < counts[topic]):
            raise self._source.error(
                path,
                f"topic {topic!r} has the partitions 0 to {counts[topic] - 1}, but not {text[:40]}",
            )

    def _check_authorizer(self) -> None:
        if self._state.acls and not self._broker.has_authorizer:
            raise self._source.error(
                ("acls", 0),
                "ACLs need an authorizer: set authorizer.class.name to "
                "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            )

    def _refusal(self, path: Path, code: int, message: str | None) -> Exception:
        return self._source.error(path, sentence(KafkaError(ErrorCode(code), message)))

    async def _answer(self, path: Path, request: Any, node: Any = None) -> Any:  # noqa: ANN401 - any API's classes
        try:
            return await answer_of(self._broker, request, node)
        except CommandError as error:
            raise self._source.error(path, str(error)) from error

    # Topics and records

    async def _create_topics(self, names: Sequence[str], *, validate_only: bool) -> None:
        row = CreateTopicsRequest.CreatableTopic
        config = CreateTopicsRequest.CreatableTopicConfig
        for some in chunks(names, _TOPICS_PER_REQUEST):
            topics = [
                row(
                    name=name,
                    num_partitions=topic.partitions or _BY_DEFAULT,
                    replication_factor=topic.replication_factor or _BY_DEFAULT,
                    configs=[
                        config(name=key, value=text)
                        for key, text in config_texts(topic.config).items()
                    ],
                )
                for name in some
                for topic in (self._state.topics[name],)
            ]
            request = CreateTopicsRequest(
                topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=validate_only
            )
            answer = await self._answer(("topics", some[0]), request)
            for created in answer.topics:
                if created.error_code:
                    path = ("topics", created.name)
                    raise self._refusal(path, created.error_code, created.error_message)

    async def _fill(self, name: str, count: int) -> None:
        by_partition: dict[int, list[Content]] = {index: [] for index in range(count)}
        for content in self._source.contents[name]:
            by_partition[_partition_of(content, count)].append(content)
        hosted = self._cluster.partitions.topic(name)
        ends = self._state.topics[name].end_offsets
        for index, contents in by_partition.items():
            end = ends.get(f"{index}")
            if not contents and end is None:
                continue
            partition = None if hosted is None else hosted.partition(index)
            if partition is None:
                raise self._source.error(("topics", name), f"{name}-{index} is not available")
            for run in _runs(contents, partition):
                self._append(partition, run)
                await asyncio.sleep(0)
            if end is not None:
                self._end_at(partition, end, ("topics", name, "end_offsets", f"{index}"))
            partition.announce()

    def _append(self, partition: Partition, run: Sequence[Content]) -> None:
        first = run[0]
        if first.offset is not None:
            self._skip(partition, first.offset, first.path, "offset")
        if partition.end_offset + len(run) > MAX_END_OFFSET:
            text = f"{partition.name} ends at {partition.end_offset}: there is no larger offset"
            raise self._source.error(run[-1].path, text)
        batch = BatchView(build_batch([self._record(each) for each in run]))
        now_ms = self._record(first).timestamp if _is_appended(partition) else self._now_ms
        try:
            checked = turns.without_pauses(
                lambda: validate_and_convert(
                    (batch,),
                    _without_time_limits(partition),
                    now_ms=now_ms,
                    partition=partition.name,
                )
            )
        except InvalidRecordsError as error:
            wrong = error.record_errors[0]
            path = run[wrong.batch_index].path
            raise self._source.error(path, f"{error.code.name}: {wrong.message}") from error
        except KafkaError as error:
            raise self._source.error(first.path, sentence(error)) from error
        partition.append_internal(checked[0], now_ms)

    def _record(self, content: Content) -> NewRecord:
        time = self._now_ms if content.timestamp_ms is None else content.timestamp_ms
        return NewRecord(content.key, content.value, time, content.headers)

    def _end_at(self, partition: Partition, end: int, path: Path) -> None:
        """Let a log end at an offset, with a batch without records unless the log is empty.

        A consumer reaches the end by that batch, as after compaction.
        """
        if partition.log_start_offset < partition.end_offset < end:
            self._skip(partition, end - 1, path, "end_offsets")
            partition.append_internal(BatchView(_batch_without_records(self._now_ms)), self._now_ms)
        self._skip(partition, end, path, "end_offsets")

    def _skip(self, partition: Partition, offset: int, path: Path, field: str) -> None:
        if offset < partition.end_offset:
            raise self._source.error(
                path,
                f"{field} must be at least {partition.end_offset}, the end of {partition.name}, "
                f"not {offset}",
            )
        if offset > partition.end_offset:
            partition.log.skip_to(offset)

    # Groups

    async def _commit(self, group_id: str, group: StateGroup) -> None:
        if not group.offsets:
            return
        cluster, path = self._cluster, ("groups", group_id)
        try:
            cluster.metadata.ensure_internal_topic(OFFSETS_TOPIC)
        except KafkaError as error:
            raise self._source.error(path, sentence(error)) from error
        image = cluster.metadata.image
        coordinator = image.partition(OFFSETS_TOPIC, cluster.groups.partition_for(group_id))
        node = None if coordinator is None else cluster.nodes.get(coordinator.leader)
        row = OffsetCommitRequest.OffsetCommitRequestPartition
        topics = [
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                topic_id=image.topics[name].topic_id,
                partitions=[
                    row(
                        partition_index=int(index),
                        committed_offset=offset,
                        committed_metadata=group.metadata.get(name, {}).get(index, ""),
                    )
                    for index, offset in by_index.items()
                ],
            )
            for name, by_index in group.offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=group_id, generation_id_or_member_epoch=_NO_GENERATION, topics=topics
        )
        answer = await self._answer(path, request, node)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code:
                    name = topic.name or image.topic_name(topic.topic_id) or ""
                    at = (*path, "offsets", name, f"{each.partition_index}")
                    raise self._refusal(at, each.error_code, None)

    # ACLs, users and quotas

    async def _create_acls(self) -> None:
        codes = [
            {name: code for code, name in names.items()}
            for names in (RESOURCE_NAMES, PATTERN_NAMES, OPERATION_NAMES, PERMISSION_NAMES)
        ]
        resources, patterns, operations, permissions = codes
        for number, some in enumerate(chunks(self._state.acls, _ENTRIES_PER_REQUEST)):
            creations = [
                CreateAclsRequest.AclCreation(
                    resource_type=resources[each.resource_type],
                    resource_name=each.resource_name,
                    resource_pattern_type=patterns[each.pattern_type],
                    principal=each.principal,
                    host=each.host,
                    operation=operations[each.operation],
                    permission_type=permissions[each.permission],
                )
                for each in some
            ]
            first = number * _ENTRIES_PER_REQUEST
            request = CreateAclsRequest(creations=creations)
            answer = await self._answer(("acls", first), request)
            for index, result in enumerate(answer.results, first):
                if result.error_code:
                    raise self._refusal(("acls", index), result.error_code, result.error_message)

    async def _create_users(self) -> None:
        configured = {user.name for user in self._broker.settings.users}
        for name, user in self._state.users.items():
            if name in configured:
                raise self._source.error(("users", name), f"user {name!r} is also in --user")
            for mechanism, iterations in user.mechanisms.items():
                # A request may have only one alteration for each user.
                await self._create_user(name, mechanism, user.password, iterations)

    async def _create_user(
        self, name: str, mechanism: str, password: str | None, iterations: int
    ) -> None:
        salt, salted = self._salted(name, mechanism, password, iterations)
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=name,
            mechanism=SCRAM_BY_NAME[mechanism].number,
            iterations=iterations,
            salt=salt,
            salted_password=salted,
        )
        request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
        (result,) = (await self._answer(("users", name), request)).results
        if result.error_code:
            raise self._refusal(("users", name), result.error_code, result.error_message)

    def _salted(
        self, name: str, mechanism: str, password: str | None, iterations: int
    ) -> tuple[bytes, bytes]:
        """Return a salt and the salted password, which are random without a password.

        A later load has the same ones, so that clients that are authenticated remain so.
        """
        salted = self._source.salted
        if (name, mechanism) not in salted:
            entropy = self._cluster.entropy
            salt = (entropy.uuid() + entropy.uuid())[:SALT_BYTES]
            text = (entropy.uuid() + entropy.uuid()).hex() if password is None else password
            found = salt_password(SCRAM_BY_NAME[mechanism], text, salt, iterations)
            salted[name, mechanism] = salt, found
        return salted[name, mechanism]

    async def _set_quotas(self) -> None:
        entity, op = AlterClientQuotasRequest.EntityData, AlterClientQuotasRequest.OpData
        for index, each in enumerate(self._state.quotas):
            names = {
                kind: getattr(each, field)
                for field, kind in _QUOTA_ENTITIES.items()
                if getattr(each, field) is not None
            }
            entry = AlterClientQuotasRequest.EntryData(
                entity=[
                    entity(entity_type=kind, entity_name=None if name == DEFAULT_ENTITY else name)
                    for kind, name in names.items()
                ],
                ops=[op(key=key, value=float(value)) for key, value in each.quotas.items()],
            )
            request = AlterClientQuotasRequest(entries=[entry])
            (row,) = (await self._answer(("quotas", index), request)).entries
            if row.error_code:
                raise self._refusal(("quotas", index), row.error_code, row.error_message)


def _matches(name: str, pattern: str | None) -> bool:
    return pattern is not None and fnmatchcase(name, pattern)


def _partition_of(content: Content, count: int) -> int:
    if content.partition is not None:
        return content.partition
    return 0 if content.key is None else partition_of_key(content.key, count)


def _without_time_limits(partition: Partition) -> LogConfig:
    """Return the settings of a log that has records of any time: they were valid earlier."""
    return partition.log.config._replace(
        message_timestamp_after_max_ms=_NO_LIMIT_MS,
        message_timestamp_before_max_ms=_NO_LIMIT_MS,
    )


def _batch_without_records(now_ms: int) -> bytes:
    return assemble(
        b"",
        base_offset=0,
        leader_epoch=-1,
        attributes=0,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer=NO_PRODUCER,
        record_count=0,
    )


def _is_appended(partition: Partition) -> bool:
    """Return whether records get the time at which they are appended."""
    return bool(partition.log.config.message_timestamp_type == "LogAppendTime")


def _runs(contents: Sequence[Content], partition: Partition) -> Iterator[list[Content]]:
    """Yield records that can be in one batch of a partition."""
    # A batch of records that get the time of their append has only one timestamp.
    is_appended = _is_appended(partition)
    max_bytes = min(_BYTES_PER_BATCH, partition.log.config.max_message_bytes // 2)
    run: list[Content] = []
    size = 0
    for content in contents:
        length = _RECORD_OVERHEAD + len(content.key or b"") + len(content.value or b"")
        if run and (
            content.offset is not None
            or len(run) >= _RECORDS_PER_BATCH
            or size + length > max_bytes
            or (is_appended and content.timestamp_ms != run[0].timestamp_ms)
        ):
            yield run
            run, size = [], 0
        run.append(content)
        size += length
    if run:
        yield run
