"""Files with partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.docker.tools.arguments import ToolError
from kafkalite.docker.tools.partition_files import partitions_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "is no object of JSON"),
        ("{}", "has no list partitions"),
        ('{"partitions": [1]}', "each of partitions needs a valid topic"),
        (
            '{"partitions": [{"topic": "a", "partition": true}]}',
            "each of partitions needs a valid partition",
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 99999999999}]}',
            "each of partitions needs a valid partition",
        ),
        ('{"partitions": [{"topic": "a"}]}', "each of partitions needs a valid partition"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(ToolError, match=error):
        partitions_of(str(path), {})


@pytest.mark.parametrize("replicas", ["1", '["1"]', "[[1]]"])
def test_replicas_are_numbers(tmp_path: Path, replicas: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(f'{{"partitions": [{{"topic": "a", "replicas": {replicas}}}]}}')
    with pytest.raises(ToolError, match="each of partitions needs a valid replicas"):
        partitions_of(str(path), {}, ("topic", "replicas"))


def test_rows_are_returned(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"version": 1, "partitions": [{"topic": "a", "partition": 2, "x": 1}]}')
    assert partitions_of(str(path), {}) == [{"topic": "a", "partition": 2, "x": 1}]
