"""Byte for byte what Kafka's own Java classes write, and read by them to the last byte.

Random messages of every version go to one Java program per release as JSON and as our frame.
It answers with the frame it makes of each, and all three must be one. What Kafka 4 no longer
speaks is judged by the last release that did.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkalite.protocol.primitives import KafkaArray
from kafkalite.protocol.schema import message_tree
from tests.java_codec.as_json import as_json
from tests.java_codec.official import (
    definitions,
    older_definitions,
    older_jar_directory,
    speaks,
)
from tests.oracle.jars import classpath, compiled, jar_directory, java_command
from tests.oracle.requirements import program, required
from tests.properties.codec_samples import IS_LONG, Samples, all_specs, counted_nodes
from tests.properties.test_codecs import build, codecs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.message import Message
    from kafkalite.protocol.primitives import KafkaStruct
    from kafkalite.protocol.spec import MessageSpec

ROUNDS: Final = 20 if IS_LONG else 5
EDGES: Final = (126, 127, 128)
ADDED: Final = (
    "revocation_epoch",
    "is_revocation_under_way",
    "active_task_revocation_epoch",
    "is_active_task_revocation_under_way",
)
"""Fields of our own; see the ledger."""
_JUDGE: Final = Path(__file__).parent / "judge"
_PACKAGES: Final = {
    "group": "org.apache.kafka.coordinator.group.generated",
    "share": "org.apache.kafka.coordinator.share.generated",
    "transaction": "org.apache.kafka.coordinator.transaction.generated",
}


class Sample(NamedTuple):
    name: str
    version: int
    line: str
    frame: bytes


def java_class(spec: MessageSpec) -> str:
    if spec.kind in ("request", "response", "header"):
        return f"org.apache.kafka.common.message.{spec.name}Data"
    if spec.kind == "metadata":
        return f"org.apache.kafka.common.metadata.{spec.name}"
    if spec.kind == "data":
        return f"org.apache.kafka.common.message.{spec.name}"
    log = "group"
    if spec.name.startswith("TransactionLog"):
        log = "transaction"
    elif spec.name.startswith(("ShareSnapshot", "ShareUpdate")):
        log = "share"
    return f"{_PACKAGES[log]}.{spec.name}"


def messages(name: str, version: int, tree: KafkaStruct) -> Iterator[Message]:
    samples = Samples(f"{name} {version} java")
    for _ in range(ROUNDS):
        yield samples.draw(tree)
    for number, way in enumerate(counted_nodes(tree)):
        # Long arrays of rows are the work of the property test: as JSON they are a gigabyte.
        if not isinstance(way[-1], KafkaArray):
            yield samples.focused(tree, way, EDGES[(number + version) % len(EDGES)])


def samples_of(spec: MessageSpec, version: int) -> Iterator[Sample]:
    tree = message_tree(spec, version)
    _, builder = codecs_of(spec, version)
    for message in messages(spec.name, version, tree):
        frame = build(builder, message)
        plain = "-" if is_beyond_json(message) else json.dumps(as_json(spec, version, message))
        line = "\t".join((java_class(spec), str(version), plain, frame.hex()))
        yield Sample(spec.name, version, line, frame)


def is_beyond_json(message: Message) -> bool:
    """Whether a message says what Kafka's JSON cannot: tags its classes know only as bytes."""
    return "unknown_tags={" in repr(message) or any(
        getattr(message, attribute, 0) for attribute in ADDED
    )


def judged(samples: list[Sample], class_path: str) -> list[tuple[str, str]]:
    """Let one Java program answer all samples."""
    # The class path of a release stands in front of the one the command brings.
    command = java_command("FrameJudge", classes=Path(class_path), heap="512m")
    finished = subprocess.run(
        command,
        input="\n".join(sample.line for sample in samples),
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=240,
    )
    answers = []
    for line in finished.stdout.splitlines():
        from_json, _, from_frame = line.partition("\t")
        answers.append((from_json, from_frame))
    return answers


def complaints(samples: list[Sample], class_path: str) -> list[str]:
    answers = judged(samples, class_path)
    assert len(answers) == len(samples)
    found = []
    for sample, (from_json, from_frame) in zip(samples, answers, strict=True):
        where = f"{sample.name} v{sample.version}"
        ours = sample.frame.hex()
        if from_json not in ("-", ours):
            found.append(f"{where} from JSON: {from_json[:300]} is not {ours[:300]}")
        if from_frame != ours:
            found.append(f"{where} from our frame: {from_frame[:300]} is not {ours[:300]}")
    return found


@pytest.fixture(scope="module")
def judge() -> Path:
    with required():
        program("java")
        jar_directory()
        return compiled(_JUDGE)
    raise AssertionError


def test_every_message_is_what_kafka_writes(judge: Path) -> None:
    samples = [
        sample
        for name, spec in sorted(all_specs().items())
        for version in spec.versions.within(speaks(definitions()[name]))
        for sample in samples_of(spec, version)
    ]
    assert complaints(samples, str(judge)) == []


def test_versions_kafka_dropped_are_what_it_wrote_before(judge: Path) -> None:
    with required():
        older = older_jar_directory()
    older_path = os.pathsep.join(str(jar) for jar in sorted(older.glob("*.jar")))
    samples = [
        sample
        for name, spec in sorted(all_specs().items())
        for version in dropped_versions(spec)
        for sample in samples_of(spec, version)
    ]
    assert {sample.name for sample in samples} >= {"OffsetCommitRequest", "ListOffsetsRequest"}
    assert complaints(samples, os.pathsep.join((str(judge), older_path))) == []


def dropped_versions(spec: MessageSpec) -> list[int]:
    now = speaks(definitions()[spec.name])
    return [version for version in spec.versions.within(spec.versions) if version not in now]


def test_every_version_is_judged_by_one_release_or_the_other() -> None:
    with required():
        jar_directory()
        older_jar_directory()
    for name, spec in all_specs().items():
        for version in dropped_versions(spec):
            assert version in speaks(older_definitions()[name]), f"{name} v{version}"


def test_the_class_path_is_the_release_s_own() -> None:
    with required():
        assert "kafka-clients-4.3.1" in classpath()
