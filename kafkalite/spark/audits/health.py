"""How well a cluster serves its clients: latency, errors, rebalances, retries, hot partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.audits.contract import Audit, AuditOptions
from kafkalite.spark.state.errors import ERROR_NAMES, errors
from kafkalite.spark.state.signs import SIGNS
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import named
from kafkalite.spark.state.views import host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from kafkalite.spark.requests import Requests

LATENCY = table(
    "latency",
    "How long one API took, over the whole capture",
    ("api", "string", "the API"),
    ("requests", "bigint", "how often it was asked"),
    ("unanswered", "bigint", "how often without an answer, whether one was due or not"),
    ("bytes_in", "bigint", "the bytes of its requests"),
    ("bytes_out", "bigint", "and of its answers"),
    ("p50_ms", "double", "half of all answers took no longer"),
    ("p90_ms", "double", "nine of ten"),
    ("p99_ms", "double", "99 of a hundred"),
    ("p999_ms", "double", "999 of a thousand"),
    ("max_ms", "double", "and the slowest"),
)

LOAD = table(
    "load",
    "What one API was asked in a bucket of time",
    ("at", "timestamp", "when the bucket begins"),
    ("api", "string", "the API"),
    ("requests", "bigint", "how often it was asked"),
    ("p99_ms", "double", "99 of a hundred answers took no longer"),
)

ERRORS = table(
    "error_counts",
    "How often one API's answers told one error",
    ("api", "string", "the API"),
    ("error", "smallint", "the error's code"),
    ("name", "string", "what it is called"),
    ("times", "bigint", "how often it was told, each partition by itself"),
    ("clients", "bigint", "how many clients were told"),
    ("first_at", "timestamp", "when for the first time"),
    ("last_at", "timestamp", "and when for the last"),
)

REBALANCES = table(
    "rebalances",
    "How often a group came to a new epoch or generation within a minute",
    ("group_id", "string", "the group"),
    ("protocol", "string", "consumer, streams or classic"),
    ("at", "timestamp", "when the minute begins"),
    ("rebalances", "bigint", "how many new epochs or generations its members were told"),
    ("is_storm", "boolean", "whether that is many"),
)

TRAFFIC = table(
    "partition_traffic",
    "What was written to a partition and read from it",
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("bytes_in", "bigint", "the bytes of records written, as sent"),
    ("bytes_out", "bigint", "the bytes of records read, as sent"),
    ("share_of_topic", "double", "its part of all that its topic had written and read"),
    ("is_hot", "boolean", "whether that is more than thrice what an even spread would give it"),
)

CLIENTS = table(
    "clients",
    "A client, told by its address and name",
    ("host", "string", "its address"),
    ("client_id", "string", "its name"),
    ("connections", "bigint", "how many connections it had"),
    ("requests", "bigint", "how much it asked"),
    ("unanswered", "bigint", "of that without an answer"),
    ("p50_ms", "double", "half of its answers but for those that wait took no longer"),
    ("p99_ms", "double", "99 of a hundred"),
    ("retries", "bigint", "batches that it sent again: same producer, epoch and sequence"),
)

_CLIENTS: Final = ("p50_ms", "p99_ms")
WAITING: Final = ("Fetch", "ShareFetch", "JoinGroup", "SyncGroup")
"""APIs whose answers wait for data or for others: they tell nothing of a broker's speed."""
_MANY: Final = 10_000
_HOT: Final = 3
_MINUTE_US: Final = 60_000_000


def health(requests: Requests, options: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    asked = requests.envelopes().withColumn("api", _api_name())
    told = errors(requests)
    return {
        LATENCY.name: latency(asked),
        LOAD.name: load(asked, options.bucket_ms * 1000),
        ERRORS.name: error_counts(told),
        REBALANCES.name: rebalances(requests.state(SIGNS.name), options.storm_rebalances),
        TRAFFIC.name: traffic(requests, requests.state("topics")),
        CLIENTS.name: clients(asked, retries(requests)),
    }


def _api_name() -> Column:
    pairs = [f.lit(each) for key in codec.api_keys() for each in (key, codec.api_name(key))]
    return f.coalesce(
        f.create_map(*pairs)[f.col("api_key").cast("int")], f.col("api_key").cast("string")
    )


def _percentiles(names: Sequence[str], where: Column | None = None) -> Column:
    """Return the shares that these columns are of: what is kept of all values is kept once."""
    taken = f.col("latency_us") if where is None else f.when(where, f.col("latency_us"))
    shares = [_SHARES[name] for name in names]
    return f.percentile_approx(taken, shares, _MANY).alias("percentiles")


def _in_ms(names: Sequence[str]) -> list[Column]:
    """Return the columns of `_percentiles` one by one."""
    return [(f.col("percentiles")[at] / 1000).alias(name) for at, name in enumerate(names)]


_SHARES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}


def latency(asked: DataFrame) -> DataFrame:
    """Return how long each API took, as `LATENCY`."""
    return LATENCY.shape(
        asked.groupBy("api")
        .agg(
            f.count(f.lit(1)).alias("requests"),
            f.count_if(f.col("answered").isNull()).alias("unanswered"),
            f.sum("request_bytes").alias("bytes_in"),
            f.sum("response_bytes").alias("bytes_out"),
            _percentiles(list(_SHARES)),
            (f.max("latency_us") / 1000).alias("max_ms"),
        )
        .select("*", *_in_ms(list(_SHARES)))
    )


def load(asked: DataFrame, bucket_us: int) -> DataFrame:
    """Return what was asked over time, as `LOAD`."""
    at = f.unix_micros("ts")
    return LOAD.shape(
        asked.groupBy("api", f.timestamp_micros(at - at % bucket_us).alias("at"))
        .agg(f.count(f.lit(1)).alias("requests"), _percentiles(["p99_ms"]))
        .select("*", *_in_ms(["p99_ms"]))
    )


def error_counts(told: DataFrame) -> DataFrame:
    """Return how often each error was told, as `ERRORS`."""
    names = f.create_map(*(f.lit(each) for pair in ERROR_NAMES.items() for each in pair))
    return ERRORS.shape(
        told.groupBy("api", "error")
        .agg(
            f.count(f.lit(1)).alias("times"),
            f.count_distinct("client").alias("clients"),
            f.min("at").alias("first_at"),
            f.max("at").alias("last_at"),
        )
        .withColumn("name", names[f.col("error").cast("int")])
    )


def rebalances(signs_of_life: DataFrame, storm: int) -> DataFrame:
    """Return how often groups were rebalanced, as `REBALANCES`."""
    told = signs_of_life.where(
        (f.col("error") == ErrorCode.NONE) & (f.col("generation") > 0) & f.col("end_us").isNotNull()
    )
    new = told.groupBy("group_id", "protocol", "generation").agg(f.min("end_us").alias("at_us"))
    minute = f.timestamp_micros(f.col("at_us") - f.col("at_us") % _MINUTE_US).alias("at")
    return REBALANCES.shape(
        new.groupBy("group_id", "protocol", minute)
        .agg(f.count(f.lit(1)).alias("rebalances"))
        .withColumn("is_storm", f.col("rebalances") >= storm)
    )


def traffic(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return what partitions had to carry, as `TRAFFIC`."""
    by = ("topic", "partition")
    moved = _moved(
        requests.of("Produce"),
        "request.topic_data",
        name="name",
        partitions="partition_data",
        index="index",
        column="bytes_in",
    ).unionByName(
        _moved(
            requests.of("Fetch"),
            "response.responses",
            name="topic",
            partitions="partitions",
            index="partition_index",
            column="bytes_out",
        ),
        allowMissingColumns=True,
    )
    # Names are looked up once a partition, not once a request.
    sums = named(_summed(moved, *by, "topic_id"), topics)
    topic = Window.partitionBy("topic")
    both = f.col("bytes_in") + f.col("bytes_out")
    share = f.try_divide(both, f.sum(both).over(topic))
    shares = _summed(sums, *by).withColumns(
        {"share_of_topic": share, "partitions": f.count(f.lit(1)).over(topic)}
    )
    is_hot = (f.col("partitions") > _HOT) & (f.col("share_of_topic") * f.col("partitions") > _HOT)
    return TRAFFIC.shape(shares.withColumn("is_hot", is_hot))


def _moved(
    requests: DataFrame, where: str, *, name: str, partitions: str, index: str, column: str
) -> DataFrame:
    return (
        requests.select(f.explode(where).alias("t"))
        .select(
            f.col(f"t.{name}").alias("topic"),
            f.hex("t.topic_id").alias("topic_id"),
            f.explode(f"t.{partitions}").alias("p"),
        )
        .select(
            "topic",
            "topic_id",
            f.col(f"p.{index}").alias("partition"),
            f.length("p.records").alias(column),
        )
    )


def _summed(moved: DataFrame, *by: str) -> DataFrame:
    return moved.groupBy(*by).agg(
        f.coalesce(f.sum("bytes_in"), f.lit(0)).alias("bytes_in"),
        f.coalesce(f.sum("bytes_out"), f.lit(0)).alias("bytes_out"),
    )


def retries(requests: Requests) -> DataFrame:
    """Return how many batches each client sent again: (host, client_id, retries)."""
    batch = (
        requests.of("Produce")
        .select(
            host(),
            "client_id",
            f.explode("request.topic_data").alias("t"),
        )
        .select("*", f.explode("t.partition_data").alias("p"))
        .where("p.records is not null and length(p.records) >= 57")
        .select(
            "host",
            "client_id",
            f.col("t.name").alias("topic"),
            f.col("t.topic_id").alias("topic_id"),
            f.col("p.index").alias("partition"),
            # Producer id, epoch and base sequence stand together in the head of a batch.
            f.hex(f.substring("p.records", 44, 14)).alias("batch"),
        )
        .where("not startswith(batch, 'FFFFFFFFFFFFFFFF')")
    )
    by = ("host", "client_id", "topic", "topic_id", "partition", "batch")
    times = batch.groupBy(*by).agg(f.count(f.lit(1)).alias("times")).where("times > 1")
    return times.groupBy("host", "client_id").agg(f.sum(f.col("times") - 1).alias("retries"))


def clients(asked: DataFrame, again: DataFrame) -> DataFrame:
    """Return what each client asked and how it fared, as `CLIENTS`."""
    prompt = ~f.col("api").isin(*WAITING)
    by_client = (
        asked.withColumn("host", host())
        .groupBy("host", "client_id")
        .agg(
            f.count_distinct("connection").alias("connections"),
            f.count(f.lit(1)).alias("requests"),
            f.count_if(f.col("answered").isNull()).alias("unanswered"),
            _percentiles(_CLIENTS, prompt),
        )
        .select("*", *_in_ms(_CLIENTS))
    )
    counted = again.withColumnRenamed("host", "its_host").withColumnRenamed("client_id", "its_id")
    same = (f.col("host") == f.col("its_host")) & f.col("client_id").eqNullSafe(f.col("its_id"))
    return CLIENTS.shape(
        by_client.join(counted, same, "left").withColumn("retries", f.coalesce("retries", f.lit(0)))
    )


HEALTH = Audit(
    "health",
    "latency, errors, rebalance storms, retries, hot partitions and slow clients",
    (LATENCY, LOAD, ERRORS, REBALANCES, TRAFFIC, CLIENTS),
    health,
)
"""The audit."""
