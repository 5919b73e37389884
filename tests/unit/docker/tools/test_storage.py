"""`kafka-storage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.docker.credentials import Credential
from kafkalite.docker.files import ImageFiles
from kafkalite.protocol.uuids import uuid_from_text

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.docker.tools.tool import ToolRunner

STORAGE = "kafka-storage"
ID = "4L6g3nShT-eMCtK--X86sw"


def test_random_id_is_a_uuid(offline_tools: ToolRunner) -> None:
    (text,) = offline_tools.run(STORAGE, "random-uuid").lines
    assert len(uuid_from_text(text)) == 16


def test_users_are_added_for_the_next_start(offline_tools: ToolRunner, tmp_path: Path) -> None:
    environment = {"KAFKALITE_ROOT": str(tmp_path)}
    result = offline_tools.run(
        STORAGE, "format", "--ignore-formatted", "-t", ID, "-c", "/etc/kafka/kafka.properties",
        "--add-scram", 'SCRAM-SHA-512=[name="alice",password="a,b"]',
        "--add-scram", "SCRAM-SHA-256=[name=bob,password=c,iterations=8192]",
        environment=environment,
    )  # fmt: skip
    assert result.status == 1  # a comma in a password divides it
    result = offline_tools.run(
        STORAGE, "format", "-g", "--cluster-id", ID, "--config", "/c",
        "--add-scram", 'SCRAM-SHA-512=[name="alice",password="ab"]',
        "--add-scram", "SCRAM-SHA-256=[name=bob,password=c,iterations=8192]",
        environment=environment,
    )  # fmt: skip
    assert (result.status, result.lines) == (0, [])
    assert ImageFiles(str(tmp_path)).formatted_cluster_id() == ID
    assert ImageFiles(str(tmp_path)).formatted_users() == [
        Credential("alice", "ab", "SCRAM-SHA-512"),
        Credential("bob", "c", "SCRAM-SHA-256"),
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["format", "-c", "/c"], "argument --cluster-id/-t is required"),
        (["format", "-t", ID, "--add-scram", "PLAIN=[name=a,password=b]"], "write MECHANISM="),
        (["format", "-t", ID, "--add-scram", "SCRAM-SHA-256=[name=a]"], "a name and a password"),
        (["format", "-t", ID, "--add-scram", "SCRAM-SHA-256=[name=a,password=b,salt=c]"], "salt"),
        (["format", "-t", "x"], "Cluster ID string x does not appear to be a valid UUID"),
        (["info"], "info needs --config"),
        (["info", "-c", "/none/x"], "cannot read /none/x"),
        (["format", "-t", ID, "--feature", "a=1"], "a=1 is not supported here"),
        (["format", "-t", ID, "-r", "4.3"], "metadata.version=4.3-IV0 is not supported here"),
        (["format", "-t", ID, "-I", "1@a:1:x,2@b:1:y"], "--initial-controllers: the nodes of"),
    ],
)
def test_invalid_arguments_are_named(
    offline_tools: ToolRunner, arguments: list[str], error: str
) -> None:
    result = offline_tools.run(STORAGE, *arguments)
    assert result.status == 1
    assert error in result.error
