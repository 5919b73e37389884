"""The README's examples do what they show, when somebody pastes them."""

from __future__ import annotations

import os
import re
import shutil
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
    if f"from {client} import" in block and "localhost:9092" in block
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


TESTS = {
    name: block
    for block in _BLOCKS
    if "broker.clock.advance(" in block
    for name in re.findall(r"^def (\w+)", block, re.MULTILINE)
}


@pytest.mark.parametrize("name", TESTS)
def test_an_example_of_the_clock_is_a_test_that_passes(name: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", f"{TESTS[name]}\n{name}()"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_there_are_examples_of_the_clock() -> None:
    assert len(TESTS) == 2


def test_the_shell_fences_producers_as_shown() -> None:
    section = _TEXT[_TEXT.index("## Transactions") : _TEXT.index("## Use it in a test")]
    (block,) = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    with Broker() as broker:
        for line in block.splitlines():
            shown = line.partition("#")[0].replace("localhost:9092", broker.bootstrap_servers)
            words = shown.split()[1:]
            if "--bootstrap-server" not in words:
                words += ["--bootstrap-server", broker.bootstrap_servers]
            done = subprocess.run(
                [sys.executable, "-m", "kafkalite", *words],
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, (line, done.stderr)
            assert re.search(r"^shop: producer id \d+, epoch \d+$", done.stdout, re.MULTILINE)
        assert [each.transactional_id for each in broker.transactions()] == ["shop", "stock"]


def test_the_shell_drives_the_clock_as_shown() -> None:
    """Every line of the section, at the address of a broker of our own."""
    section = _TEXT[_TEXT.index("## Drive its clock") : _TEXT.index("## Record, replay, compare")]
    blocks = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    with Broker(clock="manual@2026-03-01", control=True) as broker:
        environment = {**os.environ, "KAFKALITE_CONTROL": broker.control_url, "NO_PROXY": "*"}
        for line in lines:
            if "serve" in line or (line.startswith("curl") and shutil.which("curl") is None):
                continue
            shown = line.replace("http://127.0.0.1:9097", broker.control_url)
            program = re.sub(r"^kafkalite", f"{sys.executable} -m kafkalite", shown)
            done = subprocess.run(
                ["sh", "-c", program],
                capture_output=True,
                text=True,
                env={**environment, "PYTHONPATH": str(ROOT)},
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, (line, done.stderr)
            assert "error" not in done.stdout
        assert broker.clock.now().isoformat() >= "2026-12-31T23:59:50"


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
