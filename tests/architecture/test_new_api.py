"""A new API needs a spec, a handler, a row in `apis/table.py` and a row in the catalogue."""

from __future__ import annotations

import os
import subprocess
import sys
from shutil import copytree, ignore_patterns
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import PACKAGE, ROOT, changed_files

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = """\
# Says hello to a group.
request GreetGroupRequest
api-key 9300
versions 0
flexible 0+

GroupId: string(groupId) 0+
Password: bytes 0+
Topics: []Topic 0+
  Name: string(topicName) 0+
"""

RESPONSE = """\
# Says hello back.
response GreetGroupResponse
api-key 9300
versions 0
flexible 0+

ErrorCode: int16 0+
ErrorMessage: string 0+ nullable 0+ = null
NodeEndpoints: []NodeEndpoint 0+
  NodeId: int32(brokerId) 0+
  Host: string 0+
  Port: int32 0+
"""

CATALOGUE_ROW = """\
    ApiKey.GREET_GROUP: Row(
        AnsweringNode.GROUP_COORDINATOR,
        ChangedState.OFFSETS,
        "READ GROUP",
        request=Fields(group="group_id", topic="topics.name", credentials="password"),
        response=Fields(broker="node_endpoints.node_id"),
        errors="error_code",
        messages="error_message",
        endpoints="node_endpoints.host",
    ),
"""

HANDLER = '''\
"""GreetGroup: hello."""

from kafkalite.gateway.api import Api
from kafkalite.protocol._generated.messages.greet_group import (
    GreetGroupRequest,
    GreetGroupResponse,
)
from kafkalite.protocol.versions import Versions


def greet_group(call, request):
    return GreetGroupResponse(error_message=f"hello {request.group_id}")


APIS = (
    Api(
        key=GreetGroupRequest.API_KEY,
        versions=Versions(0, 0),
        handler=greet_group,
    ),
)
'''


def _insert(path: Path, before: str, text: str) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count(before) == 1
    path.write_text(source.replace(before, f"{text}{before}"), encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the project with an additional API."""
    specs = tmp_path / "protocol-specs"
    copytree(PACKAGE, tmp_path / "kafkalite", ignore=ignore_patterns("__pycache__", "specs"))
    copytree(ROOT / "protocol-specs", specs)
    (specs / "apis" / "greet_group_request.ksp").write_text(REQUEST, encoding="utf-8")
    (specs / "apis" / "greet_group_response.ksp").write_text(RESPONSE, encoding="utf-8")
    (tmp_path / "kafkalite" / "apis" / "greetings.py").write_text(HANDLER, encoding="utf-8")
    _insert(
        tmp_path / "kafkalite" / "apis" / "table.py",
        "\n)\n\n_KEYS = ",
        '\n    Row("GreetGroup", 0, 0, "greetings"),',
    )
    _insert(
        tmp_path / "kafkalite" / "protocol" / "catalogue.py",
        '}\n"""API key → properties of the API',
        CATALOGUE_ROW,
    )
    return tmp_path


def _run(copy: Path, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    completed = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-4000:]


def test_new_api_needs_only_spec_handler_and_rows(copy: Path) -> None:
    """Broker, recorder, replay, diff and proxy use the new API without other changes."""
    assert changed_files(copy) == [
        "kafkalite/apis/greetings.py",
        "kafkalite/apis/table.py",
        "kafkalite/protocol/catalogue.py",
        "protocol-specs/apis/greet_group_request.ksp",
        "protocol-specs/apis/greet_group_response.ksp",
    ]
    _run(copy, "-m", "kafkalite.protocol.generator")
    _run(copy, str(ROOT / "tests" / "architecture" / "new_api_probe.py"), str(copy))
