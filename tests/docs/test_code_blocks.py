"""Every code block of the README and the site works as its page describes."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from kafkalite.cli.main import main
from kafkalite.testing import Broker
from tests.architecture.source import ROOT
from tests.clients.client_libraries import kafkajs_program
from tests.clients.tools import MAIN_CLASSES
from tests.docs.blocks import (
    NEEDS_REASON,
    Block,
    Kind,
    all_blocks,
    blocks_of,
    output_after,
)
from tests.docs.schemas import validate
from tests.docs.shell import (
    BOOTSTRAP,
    CONTROL,
    command_lines,
    console_commands,
    environment,
    matches_shown_output,
    run_line,
)
from tests.oracle.jars import classpath, java_command
from tests.oracle.requirements import program, required

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

_FIRST_PAGES = frozenset(("README.md", "docs/tutorial.md"))
_TIMEOUT_S = 120.0
_SCHEMAS = {
    Kind.COMPOSE: "compose-spec.json",
    Kind.GITHUB_WORKFLOW: "github-workflows.json",
    Kind.GITLAB_CI: "gitlab-ci.json",
    Kind.CIRCLECI: "circle-ci.json",
}


def for_blocks(*kinds: Kind) -> pytest.MarkDecorator:
    """Parametrize a test with the blocks of some kinds."""
    blocks = blocks_of(*kinds)
    return pytest.mark.parametrize("block", blocks, ids=[block.name for block in blocks])


def for_running_blocks(*kinds: Kind) -> pytest.MarkDecorator:
    """Parametrize a test that runs blocks: in the short run only those of the first pages."""
    parameters = [
        pytest.param(
            block,
            id=block.name,
            marks=() if block.page in _FIRST_PAGES else pytest.mark.endurance,
        )
        for block in blocks_of(*kinds)
    ]
    return pytest.mark.parametrize("block", parameters)


def run(
    command: list[str],
    directory: Path,
    variables: Mapping[str, str] | None = None,
    *,
    timeout_s: float = _TIMEOUT_S,
) -> str:
    """Run a program and return its standard output; AssertionError if it fails."""
    completed = subprocess.run(
        command,
        cwd=directory,
        env=dict(variables or os.environ),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert completed.returncode == 0, (completed.stdout, completed.stderr)
    return completed.stdout


@pytest.mark.parametrize("block", all_blocks(), ids=[block.name for block in all_blocks()])
def test_a_block_has_a_kind_and_one_that_does_not_run_has_a_reason(block: Block) -> None:
    assert block.kind is not None
    assert bool(block.reason) == (block.kind in NEEDS_REASON)


def test_every_kind_has_a_test() -> None:
    untested = {Kind.OUTPUT, Kind.EXAMPLE}
    modules = (Path(__file__), *(ROOT / "tests" / "examples").glob("*.py"))
    source = "".join(module.read_text(encoding="utf-8") for module in modules)
    tested = {Kind[name] for name in re.findall(r"Kind\.([A-Z_]+)", source)}
    assert tested | untested == set(Kind)


@pytest.mark.client
@for_running_blocks(Kind.SCRIPT)
def test_a_script_prints_the_output_that_follows_it(block: Block, tmp_path: Path) -> None:
    with Broker(topics={"orders": 3}) as broker:
        script = block.text.replace(BOOTSTRAP, broker.bootstrap_servers)
        printed = run([sys.executable, "-W", "ignore", "-c", script], tmp_path)
    assert printed == output_after(block)


@for_running_blocks(Kind.SCRIPT_CAPTURES)
def test_a_script_reads_captures(block: Block, workspace: Path) -> None:
    variables = environment(workspace, None)
    assert run([sys.executable, "-P", "-W", "ignore", "-c", block.text], workspace, variables)


def _failures_of_pages(directory: Path, captures: Path, *, are_first: bool) -> dict[str, list[str]]:
    """Run the test modules of the first, or of the other pages by one pytest.

    Returns failures by module.

    A module without a passed test is missing.
    """
    (directory / "captures").symlink_to(captures)
    blocks = blocks_of(Kind.TEST, Kind.TEST_CAPTURES)
    for block in (each for each in blocks if (each.page in _FIRST_PAGES) is are_first):
        (directory / f"{_module(block)}.py").write_text(block.text, encoding="utf-8")
    options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir=.", *options, "."]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        command, cwd=directory, env=variables, capture_output=True, timeout=600, check=False
    )
    failures_by_module: dict[str, list[str]] = {}
    for case in ET.parse(directory / "report.xml").iter("testcase"):  # noqa: S314 - our own file
        failures = failures_by_module.setdefault(case.attrib["classname"].partition(".")[0], [])
        failures += [
            failure.text or "" for element in ("failure", "error") for failure in case.iter(element)
        ]
    return failures_by_module


@pytest.fixture(scope="module")
def failures_by_attempt(
    tmp_path_factory: pytest.TempPathFactory, captures: Path
) -> Callable[[int, bool], dict[str, list[str]]]:
    """Return a function that runs the tests of these pages once for each attempt."""

    def failures(attempt: int, are_first: bool) -> dict[str, list[str]]:  # noqa: FBT001
        del attempt
        return _failures_of_pages(tmp_path_factory.mktemp("tests"), captures, are_first=are_first)

    return cache(failures)


def _module(block: Block) -> str:
    return "test_" + re.sub(r"\W", "_", block.name)


@pytest.mark.client
@for_running_blocks(Kind.TEST, Kind.TEST_CAPTURES)
def test_the_tests_of_a_page_pass(
    block: Block, failures_by_attempt: Callable[[int, bool], dict[str, list[str]]], attempt: int
) -> None:
    failures = failures_by_attempt(attempt, block.page in _FIRST_PAGES)
    assert failures[_module(block)] == []


@for_blocks(Kind.COMPILE)
def test_python_that_cannot_run_here_compiles(block: Block) -> None:
    compile(block.text, block.name, "exec")


@pytest.mark.client
@for_running_blocks(Kind.SHELL)
def test_the_shell_runs_each_line(block: Block, workspace: Path) -> None:
    clock = "manual@2026-03-01" if "kafkalite clock" in block.text else "real"
    with Broker(topics={"orders": 3}, clock=clock, control=True) as broker:
        for line in command_lines(block.text):
            if line.startswith("kafkalite replay"):
                with Broker(topics={"orders": 3}, control=True) as target:
                    run_line(line, workspace, target)
            else:
                run_line(line, workspace, broker)


@for_running_blocks(Kind.CONSOLE)
def test_the_console_prints_the_output_that_is_shown(block: Block, workspace: Path) -> None:
    with _console_broker(block) as broker:
        for line, expected in console_commands(block.text):
            output = run_line(line, workspace, broker)
            assert matches_shown_output(output, expected), (line, output)


def _console_broker(block: Block) -> Broker:
    """Return a broker as the page starts it; the commands of nodes need several nodes."""
    if "kafkalite node" in block.text:
        config = {"default.replication.factor": 3, "replica.lag.time.max.ms": 2000}
        return Broker(brokers=3, topics={"orders": 1}, config=config, control=True)
    # Producers send the time of this machine.
    is_real = "kafkalite replay" in block.text or "kafkalite produce" in block.text
    clock = "real" if is_real else "manual@2026-03-01T12:00:00Z"
    oidc = "kafkalite identity" in block.text
    return Broker(topics={"orders": 3}, clock=clock, control=True, oidc=oidc)


@for_blocks(Kind.SYNTAX)
def test_lines_that_cannot_run_here_have_valid_syntax(
    block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["sh", "-n", "-c", block.text], tmp_path)
    for line in command_lines(block.text):
        if line.startswith("kafkalite "):
            command, *arguments = line.removesuffix(" &").split()[1:]
            # The help of an action, such as that of `topic list`, has its options.
            words = takewhile(lambda each: not each.startswith("-"), arguments)
            with pytest.raises(SystemExit):
                main([command, *words, "--help"])
            options = set(re.findall(r"--[a-z][\w-]*", capsys.readouterr().out))
            assert {argument for argument in arguments if argument.startswith("--")} <= options, (
                line
            )


@for_blocks(*_SCHEMAS)
def test_yaml_follows_its_schema(block: Block) -> None:
    assert block.kind is not None
    document = yaml.safe_load(block.text)
    if block.kind is Kind.GITHUB_WORKFLOW:
        document["on"] = document.pop(True)  # YAML 1.1 reads `on` as a boolean
    validate(document, _SCHEMAS[block.kind])


@for_blocks(Kind.COMMAND)
def test_a_command_that_ci_reads_is_one_line(block: Block) -> None:
    assert block.language == "sh"
    assert block.text.count("\n") == 1


@pytest.mark.client
@pytest.mark.endurance
@for_blocks(Kind.KCAT)
def test_kcat_runs_each_line(block: Block, tmp_path: Path) -> None:
    with required():
        program("kcat")
    with Broker(topics={"orders": 1}) as broker:
        text = block.text.replace(BOOTSTRAP, broker.bootstrap_servers)
        assert "two apples" in run(["sh", "-euc", text], tmp_path)


@pytest.mark.client
@pytest.mark.endurance
@for_blocks(Kind.KAFKA_TOOLS)
def test_the_tools_of_kafka_run_each_line(block: Block, tmp_path: Path) -> None:
    with required():
        for name, main_class in MAIN_CLASSES.items():
            script = tmp_path / f"{name}.sh"
            command = " ".join(f"'{word}'" for word in java_command(main_class))
            script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
    variables = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    with Broker(topics={"orders": 3}) as broker:
        text = block.text.replace(BOOTSTRAP, broker.bootstrap_servers)
        run(["sh", "-euc", text], tmp_path, variables)


@pytest.mark.client
@pytest.mark.endurance
@for_blocks(Kind.NODE)
def test_a_javascript_program_runs(block: Block, tmp_path: Path) -> None:
    with required():
        node, installed = kafkajs_program("driver.js")
    text = re.sub(r"^await ", "", block.text)
    with Broker(topics={"orders": 3}, control=True) as broker:
        text = text.replace(BOOTSTRAP, broker.bootstrap_servers)
        text = text.replace(CONTROL, broker.control_url)
        before = broker.clock.now_ms()
        script = tmp_path / "block.js"
        script.write_text(text, encoding="utf-8")
        process = subprocess.Popen(
            [node, str(script)],
            env={**os.environ, "NODE_PATH": str(Path(installed).parent / "node_modules")},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            if "console.log" in text:
                assert process.stdout is not None
                assert "two apples\n" in iter(process.stdout.readline, "")
            else:
                assert process.wait(_TIMEOUT_S) == 0
                assert broker.clock.now_ms() - before >= 7 * 24 * 3_600_000
        finally:
            process.kill()
            process.communicate()


_JAVA = """
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Page {
    public static void main(String[] arguments) throws Exception {
%s
    }
}
"""


@pytest.mark.client
@pytest.mark.endurance
@for_blocks(Kind.JAVA)
def test_java_statements_run(block: Block, tmp_path: Path) -> None:
    with required():
        jars = classpath()
        java = program("java")
    with Broker(topics={"orders": 3}) as broker:
        text = _JAVA % textwrap.indent(block.text.replace(BOOTSTRAP, broker.bootstrap_servers), " ")
        (tmp_path / "Page.java").write_text(text, encoding="utf-8")
        printed = run([java, "-cp", jars, "Page.java"], tmp_path)
    assert "two apples" in printed


@pytest.mark.client
@pytest.mark.endurance
@for_blocks(Kind.GO)
def test_go_statements_have_valid_syntax(block: Block, tmp_path: Path) -> None:
    with required():
        formatter = program("gofmt")
    source = tmp_path / "page.go"
    source.write_text(f"package page\n\nfunc page() {{\n{block.text}}}\n", encoding="utf-8")
    run([formatter, "-e", str(source)], tmp_path)


@pytest.mark.spark
@pytest.mark.timeout(900)  # an audit takes minutes on a busy machine
@for_blocks(Kind.SPARK)
def test_a_block_for_spark_runs(
    block: Block, workspace: Path, request: pytest.FixtureRequest
) -> None:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("needs the extra: pip install '.[spark]'")
    if block.language == "sh":
        lines = [line for line in command_lines(block.text) if not line.startswith("pip")]
        for line in lines:
            run(["sh", "-c", line], workspace, environment(workspace, None), timeout_s=800)
        assert (workspace / "audited" / "report.html").is_file()
        return
    data = workspace / "data"
    with Broker(topics={"orders": 1}, data_directory=data):
        pass
    text = block.text.replace('"captures/"', f'"{workspace / "captures"}"')
    session: SparkSession = request.getfixturevalue("spark")
    names: dict[str, object] = {"spark": session}
    exec(text.replace("/var/lib/kafka/data", str(data)), names)  # noqa: S102 - our own page
    commits, offsets = names["commits"], names["offsets"]
    assert commits.count() > 0  # type: ignore[attr-defined]
    assert offsets.count() == 0  # type: ignore[attr-defined]
