"""Events of groups from the records of their coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.control.time_travel.replay import partition_of_key
from kafkalite.lab.file_console.logged_events import group_entries
from kafkalite.lab.file_console.opened_directory import OpenedDirectory
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.coordinator.event_history import Entry


def entries_of(path: Path, group: str) -> list[Entry]:
    directory = OpenedDirectory(str(path), AdjustableClock())
    index = partition_of_key(directory.image, OFFSETS_TOPIC, group)
    return group_entries(directory.logs, index, group, directory.image)


def test_a_classic_group_joins_and_leaves(data_directory: Path) -> None:
    entries = entries_of(data_directory, "shop")
    kinds = [each.kind for each in entries]
    assert kinds[0] == "joined"
    assert "generation" in kinds
    assert "left" in kinds
    generation = next(each for each in entries if each.kind == "generation")
    assert generation.facts["generation"] == 1
    assert [each.client_id for each in entries[0].members] == ["one"]
    assert [each.number for each in entries] == list(range(1, len(entries) + 1))


def test_a_consumer_group_has_epochs_and_assignments(data_directory: Path) -> None:
    entries = entries_of(data_directory, "new")
    kinds = [each.kind for each in entries]
    assert kinds[0] == "joined"
    assert {"rebalance", "assigned", "left", "generation"} <= set(kinds)
    assigned = next(each for each in entries if each.kind == "assigned" and "orders" in each.text)
    assert "orders-0, orders-1 at epoch" in assigned.text
    assert entries[0].text.endswith("joined, subscribed to orders")
    assert entries[-1].text.endswith("and no members")
    assert entries[-1].facts["members"] == []
