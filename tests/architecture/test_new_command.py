"""A new command needs one module, and a new field of a fault one entry in its dataclass."""

from __future__ import annotations

import os
import subprocess
import sys
from shutil import copytree, ignore_patterns
from typing import TYPE_CHECKING

from tests.architecture.source import PACKAGE, ROOT, changed_files

if TYPE_CHECKING:
    from pathlib import Path

MODULE = '''\
"""The command that greets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import Family, Row, Words


@dataclass(frozen=True, slots=True)
class Greeting:
    """A greeting."""

    text: Annotated[str, About("Text of the greeting.")]


@dataclass(frozen=True, slots=True)
class Greet:
    """Return a greeting."""

    name: Annotated[str, About("name in the greeting", max_length=9, metavar="NAME")]
    times: Annotated[int, About("repetitions", minimum=1, maximum=3, metavar="N")] = 1

    async def perform(self, broker):
        return Greeting(f"hello {self.name}" * self.times)


COMMANDS = Family(
    (
        Row(
            Greet,
            Greeting,
            "POST",
            "/v1/greetings",
            (Words("greet", "Greet.", ("name",)),),
            lambda greeting, _: [greeting.text],
            {"name": "bob"},
        ),
    ),
    {"greet": "Greet a running broker."},
)
'''

FIELD = """\
    tag: Annotated[str | None, name_field("made-up tag of the request", "TAG")] = None

    def __post_init__(self) -> None:
        if self.listener is not None:
"""


def test_a_module_and_a_field_reach_route_client_shell_and_description(tmp_path: Path) -> None:
    package = tmp_path / "kafkalite"
    copytree(PACKAGE, package, ignore=ignore_patterns("__pycache__", "specs", "lab", "docker"))
    copytree(ROOT / "protocol-specs", tmp_path / "protocol-specs")
    module = package / "control" / "commands" / "greetings.py"
    module.write_text(MODULE, encoding="utf-8")
    rules = package / "gateway" / "fault_rules.py"
    source = rules.read_text(encoding="utf-8")
    _, *lines_after = FIELD.splitlines(keepends=True)
    before = "".join(lines_after).lstrip("\n")
    assert source.count(before) == 1
    rules.write_text(source.replace(before, FIELD), encoding="utf-8")
    assert changed_files(tmp_path) == [
        "kafkalite/control/commands/greetings.py",
        "kafkalite/gateway/fault_rules.py",
    ]
    completed = subprocess.run(
        [sys.executable, ROOT / "tests" / "architecture" / "new_command_probe.py", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-4000:]
