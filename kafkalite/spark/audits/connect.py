"""Source tasks of Kafka Connect (KIP-618): generations, and whether the one before was fenced.

After new configurations a leader fences the producers of all tasks that there were, writes how
many there are now, and only then may the new ones begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.spark.state.connect import CONFIGURED, COUNTED, LEADER
from kafkalite.spark.state.order import before_now, in_order, until_now
from kafkalite.spark.state.producing import inits
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kafkalite.spark.requests import Requests

TASKS = table(
    "connect_tasks",
    "A generation of a source task's producer, or of a leader's of Kafka Connect's workers",
    ("connect_group", "string", "the group of the workers"),
    ("connector", "string", "the connector; null for the leader"),
    ("task", "int", "the task; null for the leader"),
    ("generation", "int", "counts the producers it had, from 1"),
    ("began_at", "timestamp", "when its producer was made"),
    ("client", "string", "where: host:port"),
    ("producer_epoch", "int", "at which epoch"),
    ("is_used", "boolean", "whether it wrote anything: no for a fence that the leader puts up"),
    ("ended_at", "timestamp", "when the next one of its transactional id was made; null for none"),
    ("ended_by", "string", "by whom: host:port"),
    ("end", "string", "fenced: by a fence; succeeded: by a producer that writes; null for neither"),
    ("writes_after", "bigint", "what it wrote after its end: a zombie's"),
    ("writes_after_taken", "bigint", "those of them that the broker took"),
)

GENERATIONS = table(
    "connect_generations",
    "A set of configurations of a connector's tasks, and what was done before they began",
    ("connect_group", "string", "the group of the workers"),
    ("connector", "string", "the connector"),
    ("generation", "int", "counts the sets of configurations that the capture has, from 1"),
    ("configured_at", "timestamp", "when the leader had written them"),
    ("leader", "string", "who that was: host:port"),
    ("tasks", "int", "for how many tasks"),
    ("counted_at", "timestamp", "when it said that they may begin; null where that is not seen"),
    ("tasks_before", "int", "how many there were by the last count; null where none is seen"),
    ("tasks_fenced", "int", "how many of those were fenced in between"),
    ("tasks_unfenced", "int", "how many should have been, and were not"),
    ("tasks_early", "int", "tasks that began in between, and wrote, though none was to begin yet"),
)

_ID: Final = ("transactional_id",)
_CONNECTOR: Final = ("connect_group", "connector")


def connect_groups(requests: Requests) -> DataFrame:
    """Return the groups of Connect's workers: those that join as such, and those with leaders."""
    joined = (
        requests.of("JoinGroup")
        .where("request.protocol_type = 'connect'")
        .select(f.col("request.group_id").alias("connect_group"))
    )
    led = (
        inits(requests)
        .where(f.col("transactional_id").startswith(LEADER))
        .select(f.substring("transactional_id", len(LEADER) + 1, 10_000).alias("connect_group"))
    )
    return joined.unionByName(led).distinct()


def of_connect(fences: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the history of the producers that are Connect's, with whose they are."""
    is_leader = f.expr(f"transactional_id = concat('{LEADER}', connect_group)")
    rest = f.expr("substring(transactional_id, length(connect_group) + 2)")
    is_task = f.expr("startswith(transactional_id, concat(connect_group, '-'))") & rest.rlike(
        "^.+-[0-9]{1,9}$"
    )

    def of_task(value: Column) -> Column:
        return f.when(~f.col("is_leader"), value)

    return (
        fences.join(f.broadcast(groups), is_leader | is_task)
        .withColumn("is_leader", is_leader)
        .withColumns(
            {
                "connector": of_task(f.regexp_extract(rest, "^(.+)-[0-9]+$", 1)),
                "task": of_task(f.regexp_extract(rest, "-([0-9]+)$", 1).cast("int")),
            }
        )
    )


def tasks(producers: DataFrame, zombies: DataFrame) -> DataFrame:
    """Return the generations of Connect's tasks and leaders, as `TASKS`."""
    order = in_order(_ID, ("at",))
    following = f.lead(f.struct("at", "client", "is_used", "producer_id", "producer_epoch"))
    rows = producers.withColumns(
        {"generation": f.row_number().over(order), "next": following.over(order)}
    )
    late = zombies.select(*_ID, "producer_id", "producer_epoch", "outcome").alias("z")
    is_its = f.expr(
        "p.transactional_id = z.transactional_id and p.producer_id = z.producer_id"
        " and z.producer_epoch >= p.producer_epoch and (p.next is null"
        " or p.next.producer_id != p.producer_id or z.producer_epoch < p.next.producer_epoch)"
    )
    row = f.struct(*(f"p.{name}" for name in rows.columns)).alias("p")
    return TASKS.shape(
        rows.alias("p")
        .join(late, is_its, "left")
        .groupBy(row)
        .agg(
            f.count("z.outcome").alias("writes_after"),
            f.count_if(f.col("z.outcome") == "accepted").alias("writes_after_taken"),
        )
        .select("p.*", "writes_after", "writes_after_taken")
        .withColumns(
            {
                "began_at": f.col("at"),
                "ended_at": f.col("next.at"),
                "ended_by": f.col("next.client"),
                "end": f.when(f.col("next.is_used"), "succeeded").when(
                    f.col("next").isNotNull(), "fenced"
                ),
            }
        )
    )


def generations(configurations: DataFrame, producers: DataFrame) -> DataFrame:
    """Return each connector's sets of configurations over time, as `GENERATIONS`."""
    rounds = _rounds(configurations)
    begun = producers.where(~f.col("is_leader")).select(
        *(f.col(name).alias(f"its_{name}") for name in _CONNECTOR),
        "task",
        "is_used",
        f.unix_micros("at").alias("begun_us"),
    )
    meets = f.expr(
        "connect_group = its_connect_group and connector = its_connector"
        " and begun_us >= configured_us and begun_us < until_us"
    )
    was_there = f.col("task") < f.col("tasks_before")
    due = f.expr("tasks_before > 1 or (tasks_before = 1 and tasks > 1)")
    row = f.struct(*rounds.columns).alias("r")
    return GENERATIONS.shape(
        rounds.join(begun, meets, "left")
        .groupBy(row)
        .agg(
            f.count_distinct(f.when(~f.col("is_used") & was_there, f.col("task"))).alias(
                "tasks_fenced"
            ),
            f.count_distinct(f.when(f.col("is_used"), f.col("task"))).alias("tasks_early"),
        )
        .select("r.*", "tasks_fenced", "tasks_early")
        .withColumns(
            {
                "configured_at": f.timestamp_micros("configured_us"),
                "counted_at": f.timestamp_micros("counted_us"),
                "tasks_unfenced": f.when(
                    due, f.col("tasks_before") - f.col("tasks_fenced")
                ).otherwise(0),
            }
        )
    )


def _rounds(configurations: DataFrame) -> DataFrame:
    """Put each set of configurations beside the count before it and the one after it."""
    order = ("start_us", "place")
    is_counted, is_configured = f.col("kind") == COUNTED, f.col("kind") == CONFIGURED
    numbered = configurations.where("end_us is not null").withColumns(
        {
            "generation": f.count_if(is_configured).over(until_now(_CONNECTOR, order)),
            "tasks_before": f.last(f.when(is_counted, f.col("tasks")), ignorenulls=True).over(
                before_now(_CONNECTOR, order)
            ),
        }
    )
    by_round = (
        numbered.where("generation > 0")
        .groupBy(*_CONNECTOR, "generation")
        .agg(
            *(
                f.min(f.when(is_configured, f.col(name))).alias(alias)
                for name, alias in (
                    ("end_us", "configured_us"),
                    ("client", "leader"),
                    ("tasks", "tasks"),
                    ("tasks_before", "tasks_before"),
                )
            ),
            f.min(f.when(is_counted, f.col("start_us"))).alias("counted_us"),
        )
    )
    following = f.lead("configured_us").over(in_order(_CONNECTOR, ("generation",)))
    return by_round.withColumn("until_us", f.coalesce("counted_us", following, f.lit(2**62)))
