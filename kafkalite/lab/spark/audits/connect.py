"""Source tasks of Kafka Connect (KIP-618): generations of producers and their fencing.

After a leader writes new task configurations, it fences the producers of all previous tasks. Then
it writes the new number of tasks, which allows the new tasks to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.connect import LEADER, TASK_CONFIGURATIONS, TASK_COUNT
from kafkalite.lab.spark.state.producing import inits
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import (
    ordered_rows,
    rows_before_current,
    rows_up_to_current,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

TASKS = table(
    "connect_tasks",
    "A producer of a source task, or of a leader of Kafka Connect's workers",
    ("connect_group", "string", "the workers' group"),
    ("connector", "string", "the connector; null for the leader"),
    ("task", "int", "the task; null for the leader"),
    ("generation", "int", "number of the producer in this task's history, from 1"),
    ("began_at", "timestamp", "time of its InitProducerId"),
    ("client", "string", "the client: host:port"),
    ("producer_epoch", "int", "its producer epoch"),
    (
        "has_writes",
        "boolean",
        "whether it wrote anything; false if the leader used it only to fence",
    ),
    ("ended_at", "timestamp", "time of the next InitProducerId of its id; null for none"),
    ("ended_by", "string", "the client that sent it: host:port"),
    (
        "end_reason",
        "string",
        "fenced: by the leader; replaced: by a producer that writes; null for none",
    ),
    ("writes_after_end", "bigint", "writes that it sent after its end, as a zombie"),
    ("accepted_writes_after_end", "bigint", "of these, writes that the broker accepted"),
    times=("ended_at",),
)

GENERATIONS = table(
    "connect_generations",
    "A set of task configurations of a connector, and the fencing before its tasks started",
    ("connect_group", "string", "the workers' group"),
    ("connector", "string", "the connector"),
    ("generation", "int", "number of the set of configurations in the capture, from 1"),
    ("configured_at", "timestamp", "time at which the broker acknowledged it to the leader"),
    ("leader", "string", "the leader: host:port"),
    ("tasks", "int", "number of tasks"),
    (
        "task_count_at",
        "timestamp",
        "time at which the leader wrote the task count, so that tasks may start; null if unseen",
    ),
    ("previous_tasks", "int", "previous number of tasks; null if unseen"),
    ("tasks_fenced", "int", "previous tasks that were fenced in between"),
    ("tasks_unfenced", "int", "previous tasks that should have been fenced but were not"),
    ("tasks_started_early", "int", "tasks that started and wrote before the leader allowed it"),
    times=("configured_at",),
)

_ID: Final = ("transactional_id",)
_CONNECTOR: Final = ("connect_group", "connector")


def connect_groups(requests: Requests) -> DataFrame:
    """Return the groups of Connect's workers, found by JoinGroup and by leaders' producers."""
    joined = (
        requests.of("JoinGroup")
        .where("request.protocol_type = 'connect'")
        .select(f.col("request.group_id").alias("connect_group"))
    )
    with_leader = (
        inits(requests)
        .where(f.col("transactional_id").startswith(LEADER))
        .select(f.substring("transactional_id", len(LEADER) + 1, 10_000).alias("connect_group"))
    )
    return joined.unionByName(with_leader).distinct()


def select_connect_fences(fences: DataFrame, groups: DataFrame) -> DataFrame:
    """Return the fences of producers that belong to Connect, with connector and task."""
    is_leader = f.expr(f"transactional_id = concat('{LEADER}', connect_group)")
    connector_and_task = f.expr("substring(transactional_id, length(connect_group) + 2)")
    is_task = f.expr(
        "startswith(transactional_id, concat(connect_group, '-'))"
    ) & connector_and_task.rlike("^.+-[0-9]{1,9}$")

    def of_task(value: Column) -> Column:
        return f.when(~f.col("is_leader"), value)

    return (
        fences.join(f.broadcast(groups), is_leader | is_task)
        .withColumn("is_leader", is_leader)
        .withColumns(
            {
                "connector": of_task(f.regexp_extract(connector_and_task, "^(.+)-[0-9]+$", 1)),
                "task": of_task(f.regexp_extract(connector_and_task, "-([0-9]+)$", 1).cast("int")),
            }
        )
    )


def tasks(producers: DataFrame, zombies: DataFrame) -> DataFrame:
    """Return the producers of Connect's tasks and leaders, as `TASKS`."""
    order = ordered_rows(_ID, ("at",))
    following = f.lead(f.struct("at", "client", "has_writes", "producer_id", "producer_epoch"))
    rows = producers.withColumns(
        {"generation": f.row_number().over(order), "next": following.over(order)}
    )
    zombie_writes = zombies.select(*_ID, "producer_id", "producer_epoch", "outcome").alias("z")
    is_of_producer = f.expr(
        "p.transactional_id = z.transactional_id and p.producer_id = z.producer_id"
        " and z.producer_epoch >= p.producer_epoch and (p.next is null"
        " or p.next.producer_id != p.producer_id or z.producer_epoch < p.next.producer_epoch)"
    )
    row = f.struct(*(f"p.{name}" for name in rows.columns)).alias("p")
    return TASKS.shape(
        rows.alias("p")
        .join(zombie_writes, is_of_producer, "left")
        .groupBy(row)
        .agg(
            f.count("z.outcome").alias("writes_after_end"),
            f.count_if(f.col("z.outcome") == "accepted").alias("accepted_writes_after_end"),
        )
        .select("p.*", "writes_after_end", "accepted_writes_after_end")
        .withColumns(
            {
                "began_at": f.col("at"),
                "ended_at": f.col("next.at"),
                "ended_by": f.col("next.client"),
                "end_reason": f.when(f.col("next.has_writes"), "replaced").when(
                    f.col("next").isNotNull(), "fenced"
                ),
            }
        )
    )


def generations(configurations: DataFrame, producers: DataFrame) -> DataFrame:
    """Return each connector's sets of configurations, as `GENERATIONS`."""
    sets = _configuration_sets(configurations)
    starts = producers.where(~f.col("is_leader")).select(
        *(f.col(name).alias(f"its_{name}") for name in _CONNECTOR),
        "task",
        "has_writes",
        f.unix_micros("at").alias("begun_us"),
    )
    is_before_count = f.expr(
        "connect_group = its_connect_group and connector = its_connector"
        " and begun_us >= configured_us and begun_us < until_us"
    )
    existed_before = f.col("task") < f.col("previous_tasks")
    is_fencing_required = f.expr("previous_tasks > 1 or (previous_tasks = 1 and tasks > 1)")
    row = f.struct(*sets.columns).alias("r")
    return GENERATIONS.shape(
        sets.join(starts, is_before_count, "left")
        .groupBy(row)
        .agg(
            f.count_distinct(f.when(~f.col("has_writes") & existed_before, f.col("task"))).alias(
                "tasks_fenced"
            ),
            f.count_distinct(f.when(f.col("has_writes"), f.col("task"))).alias(
                "tasks_started_early"
            ),
        )
        .select("r.*", "tasks_fenced", "tasks_started_early")
        .withColumns(
            {
                "configured_at": f.timestamp_micros("configured_us"),
                "task_count_at": f.timestamp_micros("counted_us"),
                "tasks_unfenced": f.when(
                    is_fencing_required, f.col("previous_tasks") - f.col("tasks_fenced")
                ).otherwise(0),
            }
        )
    )


def _configuration_sets(configurations: DataFrame) -> DataFrame:
    """Join each set of configurations with the task counts before and after it."""
    order = ("start_us", "record_index")
    is_counted, is_configured = f.col("kind") == TASK_COUNT, f.col("kind") == TASK_CONFIGURATIONS
    numbered = configurations.where("end_us is not null").withColumns(
        {
            "generation": f.count_if(is_configured).over(rows_up_to_current(_CONNECTOR, order)),
            "previous_tasks": f.last(f.when(is_counted, f.col("tasks")), ignorenulls=True).over(
                rows_before_current(_CONNECTOR, order)
            ),
        }
    )
    by_set = (
        numbered.where("generation > 0")
        .groupBy(*_CONNECTOR, "generation")
        .agg(
            *(
                f.min(f.when(is_configured, f.col(name))).alias(alias)
                for name, alias in (
                    ("end_us", "configured_us"),
                    ("client", "leader"),
                    ("tasks", "tasks"),
                    ("previous_tasks", "previous_tasks"),
                )
            ),
            f.min(f.when(is_counted, f.col("start_us"))).alias("counted_us"),
        )
    )
    following = f.lead("configured_us").over(ordered_rows(_CONNECTOR, ("generation",)))
    return by_set.withColumn("until_us", f.coalesce("counted_us", following, f.lit(2**62)))
