"""What is said of tables: every column of each has its line."""

from __future__ import annotations

import pytest

from kafkalite.columnar import tables
from kafkalite.spark.audits import STATE_TABLES, TABLES
from kafkalite.spark.describing import ENVELOPE, described

TEXT = described([8, 3])


def part(heading: str) -> str:
    return TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("folder", "name"),
    [*(("audits", name) for name in TABLES), *(("state", name) for name in STATE_TABLES)],
)
def test_every_column_is_described(folder: str, name: str) -> None:
    told = part(f"{folder}/{name}")
    for column in {**TABLES, **STATE_TABLES}[name].columns:
        assert f"| `{column.name}` | {column.type} | {column.about} |" in told


def test_what_all_requests_have_is_described() -> None:
    told = part("requests/api=NAME/date=DAY")
    assert set(ENVELOPE) == {*tables.requests(8).names, "date"}
    for name, about in ENVELOPE.items():
        assert f"| `{name}` |" in told
        assert about in told


def test_fields_of_messages_are_told_of_the_apis_that_came() -> None:
    assert "### requests/api=OffsetCommit" in TEXT
    assert "`topics[].partitions[].committed_offset` int64" in TEXT
    assert "### requests/api=Metadata" in TEXT
    assert "### requests/api=Produce" not in TEXT
