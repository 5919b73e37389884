"""Files of local control endpoints, which only their user can read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalite.control.local_endpoints import (
    LocalEndpoint,
    find_endpoint,
    publish_endpoint,
    withdraw_endpoint,
)
from kafkalite.ports.temporary import private_directory

ENDPOINT = LocalEndpoint("https", "/data/control-token", "/data/ca.pem")


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_an_endpoint_is_found_by_its_port_until_it_is_withdrawn() -> None:
    assert find_endpoint(9097) is None
    publish_endpoint(9097, ENDPOINT)
    publish_endpoint(9098, LocalEndpoint("http", None, None))
    assert find_endpoint(9097) == ENDPOINT
    withdraw_endpoint(9097)
    withdraw_endpoint(9097)
    assert find_endpoint(9097) is None
    assert find_endpoint(9098) == LocalEndpoint("http", None, None)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"scheme": "https"}',
        "\udcff",
        '{"process_id": 1, "scheme": "https", "token_file": null}',
        '{"process_id": "1", "scheme": "https", "token_file": null, "authority_file": null}',
    ],
)
def test_another_file_is_ignored(content: str) -> None:
    publish_endpoint(9097, ENDPOINT)
    (path,) = [*_directory().iterdir()]
    path.write_text(content, errors="surrogateescape")
    assert find_endpoint(9097) is None


def test_the_endpoint_of_an_ended_process_is_ignored() -> None:
    publish_endpoint(9097, ENDPOINT)
    (path,) = _directory().iterdir()
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    content = path.read_text().replace(
        f'"process_id": {os.getpid()}', f'"process_id": {process.pid}'
    )
    path.write_text(content)
    assert find_endpoint(9097) is None
    publish_endpoint(9098, ENDPOINT)
    assert [each.name for each in _directory().iterdir()] == ["9098"]


def test_a_directory_of_others_is_not_used() -> None:
    publish_endpoint(9097, ENDPOINT)
    _directory().chmod(0o777)
    assert find_endpoint(9097) is None
    withdraw_endpoint(9097)
    with pytest.raises(PermissionError):
        publish_endpoint(9097, ENDPOINT)


def _directory() -> Path:
    return Path(private_directory("kafkalite-control"))
