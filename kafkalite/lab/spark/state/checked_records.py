"""What the rules of the checker find, computed in shards of partitions and of producers.

A shard has the pieces of its partitions or producers, and those that concern all. One process
checks it at a time, so memory depends on the size of a shard, and not on that of the capture. A
partition is not divided, so the largest partition decides how much memory a shard needs.
"""

from __future__ import annotations

import marshal
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.checker.history import Client, Event, Proof
from kafkalite.lab.checker.losses import decided
from kafkalite.lab.checker.pieces import PlacedPiece, Target, check_shard
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import shared, to_schema, union
from kafkalite.lab.spark.state.lost_bytes import lost_bytes
from kafkalite.lab.spark.state.pieces import FIRST_REQUESTS, piece_reductions
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import TOPICS
from kafkalite.ports.units import NANOSECONDS_PER_MICROSECOND
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from kafkalite.lab.checker.findings import Finding
    from kafkalite.lab.checker.history import Delivery, History, Loss, Write
    from kafkalite.lab.spark.requests import Requests

FINDING: Final = "finding"
ACKNOWLEDGED: Final = "acknowledged"
DELIVERY: Final = "delivery"
UNDECIDABLE: Final = "undecidable"
_SHARD_PIECES: Final = 400_000
"""Number of pieces of a shard, which need about 1 KB of memory each."""
_PIECES_AT_ONCE: Final = 4_096
_PROOF: Final = (
    "array<struct<file: string, offset: bigint, connection: string, connection_id: bigint,"
    " correlation_id: bigint>>"
)

CHECKED_RECORDS = table(
    "checked_records",
    "A finding of the checker, a batch that was acknowledged or delivered, or what is undecidable",
    ("kind", "string", "finding, acknowledged, delivery or undecidable"),
    ("at", "timestamp", "time of the request"),
    ("rule", "string", "the rule; of what is undecidable, the reason"),
    ("severity", "string", "violation, warning or note"),
    ("cause", "string", "the cause"),
    ("text", "string", "the finding as a sentence"),
    ("topic", "string", "the topic"),
    ("partition", "int", "the partition"),
    ("incarnation", "int", "number of topics of this name that were deleted before"),
    ("first_offset", "bigint", "the first offset"),
    ("last_offset", "bigint", "the last offset"),
    ("records", "bigint", "number of records, or of what is undecidable"),
    ("producer_id", "bigint", "the producer id; null for a batch without one"),
    ("producer_epoch", "int", "the producer epoch"),
    ("base_sequence", "int", "the first sequence number"),
    ("transactional_id", "string", "the transactional id"),
    ("isolation_level", "string", "read_committed or read_uncommitted"),
    ("is_aborted", "boolean", "whether the answer lists the transaction as aborted"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member"),
    ("client_id", "string", "the client id"),
    ("host", "string", "the client's address"),
    ("file", "string", "the capture file"),
    ("offset", "bigint", "file offset of the packet"),
    ("proofs", _PROOF, "the requests that prove a finding"),
)  # fmt: skip

_ROWS: Final = CHECKED_RECORDS.arrow_schema
_CONNECTION_BITS, _CORRELATION_BITS = 64, 32
_CONNECTION_MASK: Final = (1 << _CONNECTION_BITS) - 1
_CORRELATION_MASK: Final = (1 << _CORRELATION_BITS) - 1
_CORRELATION_SIGN: Final = 1 << (_CORRELATION_BITS - 1)
_KEY: Final = ("target", "topic", "number")
_PLACES: Final = pa.schema(
    [("target", pa.int8()), ("topic", pa.string()), ("number", pa.int64()), ("shard", pa.int64())]
)


def checked_records(requests: Requests) -> DataFrame:
    """Return the result of the check of all requests, as `CHECKED_RECORDS`."""
    window = requests.window
    pieces = _named(
        union(window.project(each) for each in piece_reductions() if each is not FIRST_REQUESTS),
        requests.state(TOPICS.name),
    )
    first = (
        window.project(FIRST_REQUESTS)
        .groupBy("connection")
        .agg(f.min("first_us").alias("first_us"))
    )
    pieces = shared(pieces)
    places = _places(pieces)
    if not places.num_rows:
        return CHECKED_RECORDS.empty(requests.spark)
    of_some = pieces.where(f.col("target") != int(Target.ALL)).join(
        f.broadcast(requests.spark.createDataFrame(places)), list(_KEY)
    )
    shards = requests.spark.createDataFrame(_shards(places))
    is_of_other_producer = f"api_key = {int(ApiKey.END_TXN)} and shard % 2 = 1"
    of_all = (
        pieces.where(f.col("target") == int(Target.ALL))
        .crossJoin(f.broadcast(shards))
        .where(f"not ({is_of_other_producer})")
    )
    placed = of_some.unionByName(of_all).join(f.broadcast(first), "connection")
    losses, first_shard = lost_bytes(window), min(places["shard"].to_pylist())

    def check(pieces: pa.Table) -> pa.Table:  # Spark reads the types of a function
        return check_pieces(pieces, losses, first_shard)

    checked = placed.groupBy("shard").applyInArrow(check, to_schema(_ROWS))
    return CHECKED_RECORDS.shape(checked)


def _named(pieces: DataFrame, topics: DataFrame) -> DataFrame:
    """Replace ids of topics by names; a topic without a known name is known by its id."""
    names = topics.groupBy("topic_id").agg(f.min("topic").alias("known_topic"))
    return (
        pieces.join(f.broadcast(names), "topic_id", "left")
        .withColumn("topic", f.coalesce("topic", "known_topic", "topic_id", f.lit("")))
        .drop("known_topic", "topic_id")
    )


def _places(pieces: DataFrame) -> pa.Table:
    """Return the shard of each partition and producer; shards have about the same size."""
    counts = (
        pieces.where(f.col("target") != int(Target.ALL))
        .groupBy(*_KEY)
        .agg(f.count(f.lit(1)).alias("pieces"))
        .collect()
    )
    rows: list[dict[str, Any]] = []
    for target in (Target.PARTITION, Target.PRODUCER):
        of_target = sorted(
            ((row.pieces, row.topic, row.number) for row in counts if row.target == target),
            reverse=True,
        )
        shard_count = -(-sum(each[0] for each in of_target) // _SHARD_PIECES)
        # Shards of producers have odd numbers.
        sizes = [(0, 2 * number + (target is Target.PRODUCER)) for number in range(shard_count)]
        heapify(sizes)
        for size, topic, number in of_target:
            smallest, shard = sizes[0]
            heapreplace(sizes, (smallest + size, shard))
            rows.append({"target": target, "topic": topic, "number": number, "shard": shard})
    return pa.Table.from_pylist(rows, _PLACES)


def _shards(places: pa.Table) -> pa.Table:
    return pa.table({"shard": places["shard"].unique()})


# -- one shard ---------------------------------------------------------------------------------


def check_pieces(pieces: pa.Table, losses: Sequence[Loss] = (), first_shard: int = 0) -> pa.Table:
    """Return the rows of `CHECKED_RECORDS` of one shard; `losses` are those of all connections."""
    number = pieces["shard"][0].as_py()
    target = Target.PRODUCER if number % 2 else Target.PARTITION
    placed = (each for part in _ordered_parts(pieces) for each in _placed(part))
    shard = check_shard(placed, target, is_first=number == first_shard, are_ordered=True)
    findings, unclear = decided(shard.findings, losses)
    rows = _RowWriter()
    for finding in findings:
        rows.add(**_finding_row(finding))
    for each in unclear:
        rows.add(kind=UNDECIDABLE, rule=each.reason, records=each.count)
    if target is Target.PARTITION:
        _add_history(rows, shard.history)
    return rows.table()


def _ordered_parts(pieces: pa.Table) -> Iterator[pa.Table]:
    """Yield pieces in the order of `piece_order`, a few at a time: as objects they are large."""
    start, end = pieces["start_us"], pieces["end_us"]
    keys = pa.table(
        {
            "is_unanswered": pc.is_null(end),
            "at": pc.coalesce(end, start),
            "start": start,
            "first": pieces["first_us"],
            "connection": pieces["connection"].cast(pa.uint64(), safe=False),
            "position": pieces["position"],
            "correlation_id": pieces["correlation_id"].cast(pa.uint32(), safe=False),
        }
    )
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    whole = pieces.combine_chunks()
    for begin in range(0, len(order), _PIECES_AT_ONCE):
        yield whole.take(order[begin : begin + _PIECES_AT_ONCE])


def _placed(pieces: pa.Table) -> Iterator[PlacedPiece]:
    clients: dict[tuple[str, str], Client] = {}
    for batch in pieces.to_batches():
        columns = [batch[name].to_pylist() for name in (
            "api_key", "start_us", "end_us", "connection", "first_us", "position",
            "correlation_id", "client", "client_id", "broker", "file", "payload",
        )]  # fmt: skip
        for (
            api_key, start_us, end_us, connection, first_us, position, correlation_id, client,
            client_id, broker, file, payload,
        ) in zip(*columns, strict=True):  # fmt: skip
            host = client.rpartition(":")[0].strip("[]")
            known = clients.setdefault((client_id or "", host), Client(client_id or "", host))
            # The number in the connection is known later, for proofs of findings only.
            request_key = (connection << _CORRELATION_BITS) | (correlation_id & _CORRELATION_MASK)
            sent_ns = start_us * NANOSECONDS_PER_MICROSECOND
            connection_name = f"{client} > {broker}"
            proof = Proof(file, position, connection_name, request_key, at_ns=sent_ns)
            request, response = marshal.loads(payload)  # noqa: S302 - written by a task of this run
            yield PlacedPiece(
                api_key,
                request,
                response,
                Event(
                    client=known,
                    connection=(first_us << _CONNECTION_BITS) | (connection & _CONNECTION_MASK),
                    sent_ns=sent_ns,
                    answered_ns=None if end_us is None else end_us * NANOSECONDS_PER_MICROSECOND,
                    broker=broker,
                    proof=proof,
                ),
            )


def _finding_row(finding: Finding) -> dict[str, Any]:
    partition, offsets, client = finding.partition, finding.offsets, finding.client
    return {
        "kind": FINDING,
        "rule": finding.rule,
        "severity": finding.severity.value,
        "cause": finding.cause,
        "text": finding.text,
        "topic": None if partition is None else partition.topic,
        "partition": None if partition is None else partition.number,
        "incarnation": None if partition is None else partition.incarnation,
        "first_offset": None if offsets is None else offsets.first,
        "last_offset": None if offsets is None else offsets.last,
        "records": finding.records,
        "transactional_id": finding.transactional_id,
        "group_id": finding.group,
        "client_id": None if client is None else client.id,
        "host": None if client is None else client.host,
        "proofs": [
            {
                "file": each.file,
                "offset": each.offset,
                "connection": each.connection,
                "connection_id": each.request >> _CORRELATION_BITS,
                "correlation_id": _signed(each.request & _CORRELATION_MASK),
            }
            for each in finding.proofs
            if isinstance(each, Proof)
        ],
    }


def _signed(correlation_id: int) -> int:
    """Return 32 bits as a signed number, which a correlation id is."""
    return (correlation_id ^ _CORRELATION_SIGN) - _CORRELATION_SIGN


def _add_history(rows: _RowWriter, history: History) -> None:
    for write in history.writes:
        if write.is_acknowledged:
            rows.add(
                kind=ACKNOWLEDGED,
                last_offset=write.last_offset,
                transactional_id=write.transactional_id,
                **_batch_row(write),
            )
    for delivery in history.deliveries:
        rows.add(
            kind=DELIVERY,
            last_offset=delivery.last_offset,
            isolation_level="read_committed" if delivery.is_read_committed else "read_uncommitted",
            is_aborted=delivery.is_aborted,
            group_id=delivery.group,
            member_id=delivery.member,
            **_batch_row(delivery),
        )
    for each in history.undecided:
        rows.add(kind=UNDECIDABLE, rule=each.reason, records=each.count)


def _batch_row(row: Write | Delivery) -> dict[str, Any]:
    event, batch, has_producer = row.event, row.batch, row.batch.producer_id >= 0
    return {
        "at": event.sent_ns // NANOSECONDS_PER_MICROSECOND,
        "topic": row.partition.topic,
        "partition": row.partition.number,
        "incarnation": row.partition.incarnation,
        "first_offset": row.first_offset,
        "records": batch.records,
        "producer_id": batch.producer_id if has_producer else None,
        "producer_epoch": batch.producer_epoch if has_producer else None,
        "base_sequence": batch.base_sequence if has_producer else None,
        "client_id": event.client.id,
        "host": event.client.host,
        "file": event.proof.file,
        "offset": event.proof.offset,
    }


class _RowWriter:
    """Collects rows of `CHECKED_RECORDS`."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._batches = [_ROWS.empty_table()]

    def add(self, **values: Any) -> None:  # noqa: ANN401 - any column
        self._rows.append(values)
        if len(self._rows) >= 1 << 16:
            self._flush()

    def table(self) -> pa.Table:
        self._flush()
        return pa.concat_tables(self._batches)

    def _flush(self) -> None:
        self._batches.append(pa.Table.from_pylist(self._rows, _ROWS))
        self._rows = []
