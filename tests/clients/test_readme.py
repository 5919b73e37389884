"""The README's examples do what they show, when somebody pastes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from kafkalite.testing import Broker
from tests.architecture.source import ROOT

pytestmark = pytest.mark.client

_TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
_BLOCKS = re.findall(r"^```python\n(.*?)^```", _TEXT, re.DOTALL | re.MULTILINE)
SCRIPTS = {
    client: block
    for client in ("confluent_kafka", "aiokafka", "kafka")
    for block in _BLOCKS
    if f"from {client} import" in block
}


@pytest.mark.parametrize("client", SCRIPTS)
def test_a_script_for_the_broker_at_9092_prints_what_it_wrote(client: str) -> None:
    with Broker(topics={"orders": 3}) as broker:
        script = SCRIPTS[client].replace("localhost:9092", broker.bootstrap_servers)
        command = [sys.executable, "-W", "ignore", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "b'two apples'\n"


def test_every_client_has_its_script() -> None:
    assert SCRIPTS.keys() == {"confluent_kafka", "aiokafka", "kafka"}


def test_the_variables_of_the_image_are_those_of_its_entrypoint() -> None:
    entrypoint = (ROOT / "docker" / "entrypoint.py").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(KAFKALITE_\w+)`", _TEXT, re.MULTILINE))
    assert named == set(re.findall(r'"(KAFKALITE_[A-Z_]+\w)"', entrypoint))


def test_the_options_are_those_of_the_command() -> None:
    section = _TEXT[_TEXT.index("## Configure it") : _TEXT.index("## Use it in a test")]
    named = {
        option
        for row in re.findall(r"^\| (`--.*?) \|", section, re.MULTILINE)
        for option in re.findall(r"--[\w-]+", row)
    }
    command = [sys.executable, "-m", "kafkalite", "serve", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert named == set(re.findall(r"^  (--[\w-]+)", done.stdout, re.MULTILINE))
