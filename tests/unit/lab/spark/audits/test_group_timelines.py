"""The time lines of the audit are those of `kafkalite explain --capture`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.capture.reading.captures import ignore
from kafkalite.lab.checker.groups.requests import captured_requests
from kafkalite.lab.checker.groups.timeline import COMMITTED, timeline
from kafkalite.lab.spark.audits.group_timelines import MAX_GROUPS
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.pipeline import Job, audit
from tests.captures import facts, member_lives

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

CAPTURES = {"facts": facts.CAPTURE, "lives": member_lives.CAPTURE}


@pytest.mark.parametrize("name", CAPTURES)
def test_the_audit_words_the_events_as_explain_does(name: str, tmp_path: Path) -> None:
    path, out = CAPTURES[name], tmp_path / "out"
    with local_engine() as session:
        audit(session, Job(inputs=(str(path),), out=str(out), audits=("members",)))
    files = (out / "audits" / "group_timelines").glob("*.parquet")
    rows = pa.concat_tables(map(parquet.read_table, files)).sort_by("number").to_pylist()
    requests = captured_requests([path], ignore)
    found = {row["group_id"] for row in rows}
    assert len(found) == min(MAX_GROUPS, len(requests.groups))
    for group in found:
        own = [(row["kind"], row["text"]) for row in rows if row["group_id"] == group]
        expected = [
            (each.kind, each.text) for each in timeline(requests, group) if each.kind != COMMITTED
        ]
        assert own == expected
