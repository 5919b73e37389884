"""Descriptions of tables: every column has a line."""

from __future__ import annotations

import pytest

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.audits import STATES, TABLES
from kafkalite.lab.spark.table_descriptions import ENVELOPE, describe_tables

TEXT = describe_tables([8, 3])


def part(heading: str) -> str:
    return TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("folder", "name"),
    [*(("audits", name) for name in TABLES), *(("state", name) for name in STATES)],
)
def test_every_column_is_described(folder: str, name: str) -> None:
    text = part(f"{folder}/{name}")
    table = TABLES[name] if folder == "audits" else STATES[name].table
    for column in table.columns:
        assert f"| `{column.name}` | {column.type} | {column.about} |" in text


def test_columns_of_all_requests_are_described() -> None:
    text = part("requests/api=NAME/date=DAY")
    assert set(ENVELOPE) == {*tables.requests(8).names, "date"}
    for name, about in ENVELOPE.items():
        assert f"| `{name}` |" in text
        assert about in text


def test_fields_of_messages_are_listed_for_decoded_apis_only() -> None:
    assert "### requests/api=OffsetCommit" in TEXT
    assert "`topics[].partitions[].committed_offset` int64" in TEXT
    assert "### requests/api=Metadata" in TEXT
    assert "### requests/api=Produce" not in TEXT
