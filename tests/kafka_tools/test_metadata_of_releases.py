"""The shell for metadata prints the same of logs that Kafka 4.3.1 and kafkalite as 4.3 wrote."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.config.default_overrides import KAFKALITE_DEFAULTS
from tests.kafka_tools.masking import masked
from tests.oracle.jars import java_command
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(300)]

_RELEASE: Final = "4.3"
_VERSION: Final = LATEST_PATCH[_RELEASE]
_CONFIG: Final = {
    **COMMON_CONFIG,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_TOPICS: Final = "org.apache.kafka.tools.TopicCommand --create --topic made"
_CONFIGS: Final = "kafka.admin.ConfigCommand --alter --user ann"
_ACLS: Final = "org.apache.kafka.tools.AclCommand --add --allow-principal User:ann"
_COMMANDS: Final = (
    f"{_TOPICS} --replica-assignment 1,1 --config retention.ms=1000",
    f"{_CONFIGS} --add-config SCRAM-SHA-256=[iterations=4096,password=secret]",
    f"{_CONFIGS} --client app --add-config producer_byte_rate=1024",
    f"{_ACLS} --operation Read --topic made",
)
_TREE: Final = [
    "tree",
    *(
        f"/image/{name}"
        for name in ("acls", "clientQuotas", "configs", "features", "producerIds", "scram")
    ),
    "/image/topics/byName",
]
_TIMEOUT_S: Final = 60.0


def _output(main_class: str, *arguments: str) -> str:
    command = java_command(main_class, *arguments, log_level="off", release=_VERSION)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _tree(target: Target) -> list[str]:
    """Let a broker write its metadata, end it, and return the output of the shell.

    Sometimes the shell runs a command before it has read all metadata, so it is repeated.
    """
    target.start()
    try:
        for command in _COMMANDS:
            main_class, *arguments = command.split()
            _output(main_class, *arguments, "--bootstrap-server", target.bootstrap)
    finally:
        target.kill()
    log = target.data / "__cluster_metadata-0" / "00000000000000000000.log"
    shell = ("org.apache.kafka.shell.MetadataShell", "--snapshot", str(log), *_TREE)
    deadline = time.monotonic() + _TIMEOUT_S
    while "made" not in (output := _output(*shell)) and time.monotonic() < deadline:
        pass
    return masked(output, {})


def test_the_metadata_of_a_release_is_that_of_kafka(tmp_path: Path) -> None:
    kafka = RealKafka(tmp_path / "kafka", _CONFIG, release=_VERSION)
    kafkalite = ServedKafkalite(
        tmp_path / "kafkalite",
        {**KAFKALITE_DEFAULTS, **_CONFIG},
        options=("--defaults", "kafka", "--as-version", _RELEASE),
    )
    with required(), ThreadPoolExecutor(2) as pool:
        expected, actual = pool.map(_tree, (kafka, kafkalite))
    assert {"made:", "SCRAM-SHA-256:", "Optional[4.3-IV0]"} <= set(expected)
    assert actual == expected
