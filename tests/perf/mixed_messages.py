"""Mixed traffic of large captures: producers, transactions, classic and consumer groups.

Each connection repeats the requests of one kind of client. Names, epochs, sequences and offsets are
those of a client that works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kafkalite.client.records import ProducerRecord, encode_batch
from kafkalite.lab.columnar.records.record_batches import HEADER_FIELDS
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from tests.perf.big_messages import Field, Template, Traffic, request_frame, response_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

HOT_KEYS: Final = ("group", "member", "partition", "transactional-id")
"""Keys of which one may have 90 % of the requests with such a key."""
_PARTITIONS: Final = 256
_GROUP_MEMBERS: Final = 3
_TOPIC_ID: Final = bytes(range(16))
_VERSIONS: Final = {
    ApiKey.PRODUCE: 11,
    ApiKey.FETCH: 12,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.HEARTBEAT: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
}
"""With these versions, a transaction has all its requests."""

_GROUP, _MEMBER, _TRANSACTION = "GGGGGG", "MMMMMM", "TTTTTT"
_PARTITION, _OWN, _GENERATION, _PREVIOUS = 0x7B010203, 0x7B020305, 0x7B030507, 0x7B040709
_PRODUCER_EPOCH: Final = 0x7C1D
_OFFSET, _PRODUCER_ID = 0x7D01020304050607, 0x7D02030507080901
_MARKS: Final = {
    "group": ("S6", _GROUP.encode()),
    "member": ("S6", _MEMBER.encode()),
    "transaction": ("S6", _TRANSACTION.encode()),
    "partition": (">i4", _PARTITION.to_bytes(4)),
    "own_partition": (">i4", _OWN.to_bytes(4)),
    "generation": (">i4", _GENERATION.to_bytes(4)),
    "previous_generation": (">i4", _PREVIOUS.to_bytes(4)),
    "producer_epoch": (">i2", _PRODUCER_EPOCH.to_bytes(2)),
    "offset": (">i8", _OFFSET.to_bytes(8)),
    "producer_id": (">i8", _PRODUCER_ID.to_bytes(8)),
}
"""Value → its format, and the bytes in a template in whose place it is written."""


@dataclass(frozen=True)
class _Role:
    """A kind of client."""

    share: int
    """Its part of ten connections."""
    start: tuple[Template, ...]
    """Messages at the start of each generation."""
    work: tuple[Template, ...]
    repetitions: int
    """How often the work is done in a generation."""
    hot: str
    """The key of which one connection has 90 % of this role's requests if that key is hot."""

    @property
    def script(self) -> tuple[Template, ...]:
        return self.start + self.work * self.repetitions


def mixed(connections: int, hot: str | None = None) -> Traffic:
    """Return mixed traffic, in which one key of the kind `hot` has 90 % of its requests."""
    numbers = np.arange(connections)
    role = np.repeat(np.arange(len(_ROLES)), [each.share for each in _ROLES])[numbers % 10]
    templates = list(dict.fromkeys((_METADATA, *(each for r in _ROLES for each in r.script))))
    scripts = [np.array([templates.index(each) for each in r.script]) for r in _ROLES]
    lengths = np.array([len(script) for script in scripts])

    def choose(connection: Numbers, number: Numbers) -> Numbers:
        chosen = np.empty(len(connection), np.int64)
        for index, script in enumerate(scripts):
            rows = role[connection] == index
            chosen[rows] = script[number[rows] % len(script)]
        return chosen

    is_hot = numbers % 10 != numbers // 10 % 10
    """Nine of ten connections of each role."""
    group = np.where(is_hot, 0, 1 + numbers) if hot == "group" else numbers // 10 // _GROUP_MEMBERS
    partition = np.where(is_hot, 0, numbers) if hot == "partition" else numbers

    def values(connection: Numbers, number: Numbers, offset: Numbers) -> Mapping[str, Numbers]:
        generation = number // lengths[role[connection]]
        return {
            "group": group[connection],
            "member": connection,
            "transaction": connection,
            "partition": partition[connection] % _PARTITIONS,
            "own_partition": connection,
            "generation": generation + 1,
            "previous_generation": generation,
            "producer_epoch": generation % 30_000,
            "producer_id": 1000 + connection,
            "sequence": number % (1 << 31),
            "offset": offset,
        }

    return Traffic(templates, _order(role, hot), choose, values)


def _order(role: Numbers, hot: str | None) -> Numbers:
    """Return the connections of exchanges: all the same, or one of a role with 90 %."""
    queues = [_of_role(np.flatnonzero(role == index), each.hot == hot)
              for index, each in enumerate(_ROLES)]  # fmt: skip
    return np.array([next(queues[index]) for _ in range(10) for index in role])


def _of_role(connections: Numbers, is_hot: bool) -> Iterator[int]:  # noqa: FBT001
    others = 0
    while True:
        if not is_hot:
            yield from connections.tolist()
            continue
        yield from [int(connections[0])] * 9
        yield int(connections[1 + others % (len(connections) - 1)])
        others += 1


def _template(key: ApiKey, request: Any, response: Any, batch: bytes = b"") -> Template:  # noqa: ANN401
    version = _VERSIONS[key]
    frames = request_frame(key, version, request), response_frame(key, version, response)
    fields = [
        Field(side, position, dtype, name)
        for name, (dtype, mark) in _MARKS.items()
        for side, frame in enumerate(frames)
        for position in _find_all(frame, mark)
    ]
    if key == ApiKey.PRODUCE:
        start = frames[0].index(batch)
        for name, value in _BATCH_FIELDS.items():
            dtype, position = HEADER_FIELDS[name]
            fields.append(Field(0, start + position, dtype, value))
    return Template(*frames, is_commit=key == ApiKey.OFFSET_COMMIT, fields=tuple(fields))


def _find_all(frame: bytes, mark: bytes) -> Iterator[int]:
    position = frame.find(mark)
    while position >= 0:
        yield position
        position = frame.find(mark, position + 1)


_BATCH_FIELDS: Final = {
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "base_sequence": "sequence",
}


def _types(key: ApiKey) -> tuple[Any, Any]:
    return codec.request_class(key), codec.response_class(key)


def _produce(size: int, transactional_id: str | None = None) -> Template:
    request, response = _types(ApiKey.PRODUCE)
    batch = bytes(encode_batch([ProducerRecord(value=bytes(size))], 1_750_000_000_000))
    data = request.TopicProduceData(
        name="orders",
        partition_data=[request.PartitionProduceData(index=_PARTITION, records=batch)],
    )
    answer = response.TopicProduceResponse(
        name="orders",
        partition_responses=[
            response.PartitionProduceResponse(index=_PARTITION, base_offset=_OFFSET)
        ],
    )
    return _template(
        ApiKey.PRODUCE,
        request(transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=[data]),
        response(responses=[answer]),
        batch,
    )


def _fetch(size: int) -> Template:
    request, response = _types(ApiKey.FETCH)
    batch = encode_batch([ProducerRecord(value=bytes(size))], 1_750_000_000_000) if size else b""
    requested = request.FetchPartition(
        partition=_PARTITION, fetch_offset=_OFFSET, partition_max_bytes=1 << 20
    )
    found = response.PartitionData(
        partition_index=_PARTITION, high_watermark=_OFFSET, records=bytes(batch)
    )
    return _template(
        ApiKey.FETCH,
        request(
            max_wait_ms=500,
            min_bytes=1,
            session_epoch=-1,
            topics=[request.FetchTopic(topic="orders", partitions=[requested])],
        ),
        response(responses=[response.FetchableTopicResponse(topic="orders", partitions=[found])]),
    )


def _commit(kind: str, group: str) -> Template:
    request, response = _types(ApiKey.OFFSET_COMMIT)
    partition = request.OffsetCommitRequestPartition(
        partition_index=_PARTITION, committed_offset=_OFFSET
    )
    answer = response.OffsetCommitResponsePartition(partition_index=_PARTITION)
    return _template(
        ApiKey.OFFSET_COMMIT,
        request(
            group_id=group,
            generation_id_or_member_epoch=_GENERATION,
            member_id=f"{kind}-member-{_MEMBER}",
            topics=[request.OffsetCommitRequestTopic(name="orders", partitions=[partition])],
        ),
        response(topics=[response.OffsetCommitResponseTopic(name="orders", partitions=[answer])]),
    )


def _consumer_heartbeat(*, is_join: bool) -> Template:
    request, response = _types(ApiKey.CONSUMER_GROUP_HEARTBEAT)
    member = f"consumer-member-{_MEMBER}"
    epoch = _PREVIOUS if is_join else _GENERATION
    body = request(
        group_id=f"consumer-{_GROUP}", member_id=member, member_epoch=epoch,
        rebalance_timeout_ms=300_000 if is_join else -1,
    )  # fmt: skip
    answer = response(member_id=member, member_epoch=_GENERATION, heartbeat_interval_ms=5000)
    if is_join:
        body.subscribed_topic_names = ["orders"]
        body.topic_partitions = []
        assigned = response.TopicPartitions(topic_id=_TOPIC_ID, partitions=[_OWN])
        answer.assignment = response.Assignment(topic_partitions=[assigned])
    return _template(ApiKey.CONSUMER_GROUP_HEARTBEAT, body, answer)


def _join_group() -> Template:
    request, response = _types(ApiKey.JOIN_GROUP)
    member = f"classic-member-{_MEMBER}"
    return _template(
        ApiKey.JOIN_GROUP,
        request(
            group_id=f"classic-{_GROUP}",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=member,
            protocol_type="consumer",
            protocols=[request.JoinGroupRequestProtocol(name="range", metadata=bytes(20))],
        ),
        response(
            generation_id=_GENERATION,
            protocol_type="consumer",
            protocol_name="range",
            leader="classic-member-leader",
            member_id=member,
        ),
    )


def _sync_group() -> Template:
    request, response = _types(ApiKey.SYNC_GROUP)
    return _template(
        ApiKey.SYNC_GROUP,
        request(
            group_id=f"classic-{_GROUP}",
            generation_id=_GENERATION,
            member_id=f"classic-member-{_MEMBER}",
            protocol_type="consumer",
            protocol_name="range",
        ),
        response(
            protocol_type="consumer",
            protocol_name="range",
            assignment=b"\0\1\0\0\0\1\0\6orders\0\0\0\1" + _OWN.to_bytes(4) + b"\xff" * 4,
        ),
    )


def _heartbeat() -> Template:
    request, response = _types(ApiKey.HEARTBEAT)
    body = request(
        group_id=f"classic-{_GROUP}",
        generation_id=_GENERATION,
        member_id=f"classic-member-{_MEMBER}",
    )
    return _template(ApiKey.HEARTBEAT, body, response())


_TRANSACTIONAL_ID: Final = f"transaction-{_TRANSACTION}"


def _init_producer_id() -> Template:
    request, response = _types(ApiKey.INIT_PRODUCER_ID)
    return _template(
        ApiKey.INIT_PRODUCER_ID,
        request(transactional_id=_TRANSACTIONAL_ID, transaction_timeout_ms=60_000),
        response(producer_id=_PRODUCER_ID, producer_epoch=_PRODUCER_EPOCH),
    )


def _add_partitions() -> Template:
    request, response = _types(ApiKey.ADD_PARTITIONS_TO_TXN)
    added = response.AddPartitionsToTxnPartitionResult(partition_index=_PARTITION)
    return _template(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        request(
            v3_and_below_transactional_id=_TRANSACTIONAL_ID,
            v3_and_below_producer_id=_PRODUCER_ID,
            v3_and_below_producer_epoch=_PRODUCER_EPOCH,
            v3_and_below_topics=[
                request.AddPartitionsToTxnTopic(name="orders", partitions=[_PARTITION])
            ],
        ),
        response(
            results_by_topic_v3_and_below=[
                response.AddPartitionsToTxnTopicResult(name="orders", results_by_partition=[added])
            ]
        ),
    )


def _add_offsets() -> Template:
    request, response = _types(ApiKey.ADD_OFFSETS_TO_TXN)
    body = request(
        transactional_id=_TRANSACTIONAL_ID,
        producer_id=_PRODUCER_ID,
        producer_epoch=_PRODUCER_EPOCH,
        group_id=f"exactly-once-{_GROUP}",
    )
    return _template(ApiKey.ADD_OFFSETS_TO_TXN, body, response())


def _commit_offsets() -> Template:
    request, response = _types(ApiKey.TXN_OFFSET_COMMIT)
    partition = request.TxnOffsetCommitRequestPartition(
        partition_index=_PARTITION, committed_offset=_OFFSET
    )
    answer = response.TxnOffsetCommitResponsePartition(partition_index=_PARTITION)
    return _template(
        ApiKey.TXN_OFFSET_COMMIT,
        request(
            transactional_id=_TRANSACTIONAL_ID,
            group_id=f"exactly-once-{_GROUP}",
            producer_id=_PRODUCER_ID,
            producer_epoch=_PRODUCER_EPOCH,
            topics=[request.TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
        ),
        response(
            topics=[response.TxnOffsetCommitResponseTopic(name="orders", partitions=[answer])]
        ),
    )


def _end() -> Template:
    request, response = _types(ApiKey.END_TXN)
    body = request(
        transactional_id=_TRANSACTIONAL_ID,
        producer_id=_PRODUCER_ID,
        producer_epoch=_PRODUCER_EPOCH,
        committed=True,
    )
    return _template(ApiKey.END_TXN, body, response())


def _metadata() -> Template:
    request, response = _types(ApiKey.METADATA)
    broker = response.MetadataResponseBroker(node_id=1, host="broker-1.kafka", port=9092)
    topic = response.MetadataResponseTopic(
        name="orders",
        topic_id=_TOPIC_ID,
        partitions=[
            response.MetadataResponsePartition(
                partition_index=index,
                leader_id=1,
                leader_epoch=4,
                replica_nodes=[1],
                isr_nodes=[1],
            )
            for index in range(3)
        ],
    )
    answer = response(
        brokers=[broker], cluster_id="zGmq3vYxSaSxYUkbHRtJ3w", controller_id=1, topics=[topic]
    )
    requested = [request.MetadataRequestTopic(name="orders")]
    return _template(ApiKey.METADATA, request(topics=requested), answer)


_METADATA: Final = _metadata()
_CONSUME: Final = (_fetch(0), _fetch(200))
_ROLES: Final = (
    _Role(2, (_METADATA,), (_produce(80), _produce(80), _produce(600)), 40, "producer"),
    _Role(
        2,
        (_METADATA, _init_producer_id()),
        (
            _add_partitions(),
            _produce(80, _TRANSACTIONAL_ID),
            _produce(80, _TRANSACTIONAL_ID),
            _add_offsets(),
            _commit_offsets(),
            _end(),
        ),
        20,
        "transactional-id",
    ),
    _Role(
        3,
        (_METADATA, _consumer_heartbeat(is_join=True)),
        (_consumer_heartbeat(is_join=False), *_CONSUME, _commit("consumer", f"consumer-{_GROUP}")),
        30,
        "member",
    ),
    _Role(
        3,
        (_METADATA, _join_group(), _sync_group()),
        (_heartbeat(), *_CONSUME, _commit("classic", f"classic-{_GROUP}")),
        30,
        "member",
    ),
)
