"""The partitions that members have, as descriptions of groups say: by topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.groups.migration.consumer_protocol import parse_assignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def of_classic_member(assignment: bytes) -> Mapping[str, Iterable[int]]:
    """Return the partitions of a member of a classic group; none if it is no consumer."""
    try:
        return parse_assignment(assignment).partitions if assignment else {}
    except ValueError:
        return {}  # the leader has assigned something else


def of_member(assignment: Any) -> Mapping[str, Iterable[int]]:  # noqa: ANN401 - of two responses
    """Return the partitions in the description of a member of a consumer or share group."""
    return {each.topic_name: each.partitions for each in assignment.topic_partitions}


def of_tasks(
    tasks: Iterable[Any],  # of a described member, or of a target
    inputs: Mapping[str, Iterable[str]],
) -> Mapping[str, Iterable[int]]:
    """Return the input partitions of tasks of a streams group.

    `inputs` has the topics that each subtopology reads, by its id.
    """
    found: dict[str, set[int]] = {}
    for task in tasks:
        for topic in inputs.get(task.subtopology_id, ()):
            found.setdefault(topic, set()).update(task.partitions)
    return found
