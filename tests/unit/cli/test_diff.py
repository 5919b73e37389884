"""`kafkalite diff`: its output and its exit status."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kafkalite.cli.main import main
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from pathlib import Path


def recorded(directory: Path, *versions: int, coordinator: bool = False) -> str:
    with Broker(capture=directory) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        with closing(RawClient(port)) as client:
            for version in versions:
                client.call(MetadataRequest(topics=[]), version)
            if coordinator:
                client.call(FindCoordinatorRequest(key="g"), 2)
    return str(directory)


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    directory = tmp_path_factory.mktemp("captures")
    return recorded(directory / "a", 9), recorded(directory / "b", 12, coordinator=True)


def test_differences_are_printed_by_api(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diff", *captures])
    out = capsys.readouterr().out
    assert "  Metadata\n    - v9\n    + v12\n" in out
    assert "  FindCoordinator\n    - 0 requests\n    + 1 requests\n" in out


def test_capture_compared_with_itself_has_no_differences(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diff", captures[0], captures[0], "--fail-on", "difference"])
    assert "no differences" in capsys.readouterr().out


def test_fail_on_sets_exit_status_and_json_has_the_report(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["diff", *captures, "--fail-on", "error", "--json"])
    shape = json.loads(capsys.readouterr().out)
    assert [change["kind"] for change in shape["changes"]] == ["version", "api"]
    with pytest.raises(SystemExit, match="1"):
        main(["diff", *captures, "--fail-on", "api"])


def test_directory_without_captures_is_a_usage_error(
    captures: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["diff", captures[0], str(tmp_path / "nowhere")])
    (line,) = capsys.readouterr().err.splitlines()
    assert "is not a capture" in line
