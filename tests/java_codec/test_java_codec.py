"""Encoded messages equal those of Kafka's Java classes, and the classes read ours completely.

Random messages of every version are sent to one Java program per release, as JSON and as our frame.
The program answers with the frame that it encodes from each; all three must be equal. Versions that
Kafka 4 dropped are compared with the last release that had them.
"""

from __future__ import annotations

import json
import os
import re
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
    supported_versions,
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

pytestmark = pytest.mark.endurance

ROUNDS: Final = 20 if IS_LONG else 5
EDGES: Final = (126, 127, 128)
ADDITIONAL_FIELDS: Final = {
    "added_settings": "None",
    "is_removed": "False",
    "port_offset": "-1",
    "revocation_epoch": "0",
    "is_revocation_under_way": "False",
    "is_join_confirmed": "False",
    "active_task_revocation_epoch": "0",
    "is_active_task_revocation_under_way": "False",
    "epoch_start_offset": "-1",
    "incarnation_epoch": "-1",
    "max_incarnation_epoch": "-1",
}
"""Our additional fields, with their defaults; see the ledger."""
_ADDITIONAL_VALUE: Final = re.compile(
    "|".join(rf"\b{name}=(?!{default}[,)])" for name, default in ADDITIONAL_FIELDS.items())
)
"""An additional field whose value is not its default, in the text of a message."""
_JAVA: Final = Path(__file__).parent / "java"
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
    for number, path in enumerate(counted_nodes(tree)):
        # Long arrays of rows are covered by the property test; as JSON they would be a gigabyte.
        if not isinstance(path[-1], KafkaArray):
            yield samples.draw_with_length(tree, path, EDGES[(number + version) % len(EDGES)])


def samples_of(spec: MessageSpec, version: int) -> Iterator[Sample]:
    tree = message_tree(spec, version)
    _, builder = codecs_of(spec, version)
    for message in messages(spec.name, version, tree):
        frame = build(builder, message)
        plain = "-" if is_beyond_json(message) else json.dumps(as_json(spec, version, message))
        line = "\t".join((java_class(spec), str(version), plain, frame.hex()))
        yield Sample(spec.name, version, line, frame)


def is_beyond_json(message: Message) -> bool:
    """Whether Kafka's JSON cannot represent a message, because of unknown tagged fields."""
    text = repr(message)
    return "unknown_tags={" in text or _ADDITIONAL_VALUE.search(text) is not None


def java_frames(samples: list[Sample], class_path: str) -> list[tuple[str, str]]:
    """Return the Java program's frames for all samples."""
    # The class path of the release comes before the default one.
    command = java_command("FrameEncoder", jar_path=f"{class_path}:{classpath()}", heap="512m")
    completed = subprocess.run(
        command,
        input="\n".join(sample.line for sample in samples),
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=240,
    )
    answers = []
    for line in completed.stdout.splitlines():
        from_json, _, from_frame = line.partition("\t")
        answers.append((from_json, from_frame))
    return answers


def differences(samples: list[Sample], class_path: str) -> list[str]:
    answers = java_frames(samples, class_path)
    assert len(answers) == len(samples)
    different = []
    for sample, (from_json, from_frame) in zip(samples, answers, strict=True):
        where = f"{sample.name} v{sample.version}"
        frame = sample.frame.hex()
        if from_json not in ("-", frame):
            different.append(f"{where} from JSON: {from_json[:300]} is not {frame[:300]}")
        if from_frame != frame:
            different.append(f"{where} from our frame: {from_frame[:300]} is not {frame[:300]}")
    return different


@pytest.fixture(scope="module")
def java_classes() -> Path:
    with required():
        program("java")
        jar_directory()
        return compiled(_JAVA)
    raise AssertionError


def test_frames_of_every_message_equal_kafka(java_classes: Path) -> None:
    samples = [
        sample
        for name, spec in sorted(all_specs().items())
        for version in spec.versions.within(supported_versions(definitions()[name]))
        for sample in samples_of(spec, version)
    ]
    assert differences(samples, str(java_classes)) == []


def test_frames_of_dropped_versions_equal_the_older_release(java_classes: Path) -> None:
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
    assert differences(samples, os.pathsep.join((str(java_classes), older_path))) == []


def dropped_versions(spec: MessageSpec) -> list[int]:
    now = supported_versions(definitions()[spec.name])
    return [version for version in spec.versions.within(spec.versions) if version not in now]


def test_every_version_is_in_one_of_the_two_releases() -> None:
    with required():
        jar_directory()
        older_jar_directory()
    for name, spec in all_specs().items():
        for version in dropped_versions(spec):
            assert version in supported_versions(older_definitions()[name]), f"{name} v{version}"
