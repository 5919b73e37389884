"""Feature levels under development: at Kafka's releases and at kafkalite that emulates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.releases import DEFAULT
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from tests.conformance.advertised import api_versions
from tests.conformance.compare import differences
from tests.conformance.scenario_cluster import Entry, ScenarioCluster
from tests.conformance.scenarios.features import (
    GROUP,
    KRAFT,
    METADATA,
    SAFE_DOWNGRADE,
    SHARE,
    STREAMS,
    TRANSACTION,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    ask_for_update,
    update,
)
from tests.oracle.jars import jar_directory
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import UnavailableError, required
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

_CONFIG: Final = {"offsets.topic.num.partitions": "1"}
_ENABLED: Final = {
    **_CONFIG,
    "unstable.feature.versions.enable": "true",
    "unstable.api.versions.enable": "true",
}


class Case(NamedTuple):
    """Requested updates of a cluster of one release: without the setting, and then with it."""

    release: str
    refused: tuple[tuple[str, int, int], ...]
    accepted: tuple[tuple[str, int, int], ...]
    levels: Mapping[str, int]
    """Levels after all updates; at least one needs the setting."""


CASES: Final = (
    Case(
        "3.9",
        (
            (TRANSACTION, 1, UPGRADE),
            (METADATA, 22, UPGRADE),
            (GROUP, 1, UPGRADE),
            (KRAFT, 0, UPGRADE),
            (KRAFT, 0, SAFE_DOWNGRADE),
            (KRAFT, 1, SAFE_DOWNGRADE),
        ),
        (
            (TRANSACTION, 3, UPGRADE),
            (TRANSACTION, 1, UPGRADE),
            (METADATA, 24, UPGRADE),
            (METADATA, 23, UPGRADE),
            (METADATA, 22, SAFE_DOWNGRADE),
            (METADATA, 21, SAFE_DOWNGRADE),
            (METADATA, 21, UNSAFE_DOWNGRADE),
        ),
        {TRANSACTION: 1, METADATA: 22},
    ),
    Case(
        "4.1",
        (
            (STREAMS, 0, UPGRADE),
            (STREAMS, 1, UPGRADE),
            (METADATA, 28, UPGRADE),
            (METADATA, 22, SAFE_DOWNGRADE),
            (KRAFT, 0, SAFE_DOWNGRADE),
        ),
        (
            (STREAMS, 2, UPGRADE),
            (STREAMS, 1, UPGRADE),
            (METADATA, 30, UPGRADE),
            (METADATA, 29, UPGRADE),
            (METADATA, 28, SAFE_DOWNGRADE),
        ),
        {STREAMS: 1, METADATA: 28},
    ),
)


class Pair(NamedTuple):
    """A real Kafka and kafkalite of one release."""

    case: Case
    targets: tuple[RealKafka, ServedKafkalite]


@pytest.fixture(params=CASES, ids=lambda case: case.release)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Return both brokers of a release; they do not run yet."""
    case: Case = request.param
    with required():
        kafka = RealKafka(tmp_path / "kafka", _CONFIG, release=LATEST_PATCH[case.release])
        kafka.prepare()
    options = ("--as-version", case.release)
    emulator = ServedKafkalite(tmp_path / "emulator", _CONFIG, options=options)
    yield Pair(case, (kafka, emulator))
    kafka.kill()
    emulator.kill()


def _await_levels(cluster: ScenarioCluster, expected: Mapping[str, int]) -> None:
    """Wait until the broker reports the levels, and put all levels into the transcript."""

    def are_reported(answer: Any) -> bool:  # noqa: ANN401 - an ApiVersions response
        levels = {row.name: row.max_version_level for row in answer.finalized_features}
        return expected.items() <= levels.items()

    request = ApiVersionsRequest(
        client_software_name="conformance-test", client_software_version="1.0"
    )
    cluster.call_until(request, 4, are_reported, is_recorded=False)
    for version in (3, 4):
        _, supported, finalized = api_versions(cluster.port, version)
        cluster.record(f"supported features in v{version}", repr(sorted(supported.items())))
        cluster.record(f"finalized features in v{version}", repr(sorted(finalized.items())))


def _play(
    port: int, updates: tuple[tuple[str, int, int], ...], levels: Mapping[str, int]
) -> list[Entry]:
    """Ask for updates one by one and together; `levels` are those after the updates."""
    # In Kafka 4.1, the status is null in responses with an error, and later it is empty.
    cluster = ScenarioCluster(port, "unstable-features", ignored=frozenset(("status",)))
    heartbeat = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    try:
        _await_levels(cluster, {})
        cluster.ask(heartbeat, 0, "streams")
        for each in updates:
            ask_for_update(cluster, update(each), 1)
        ask_for_update(cluster, update(*updates, validate_only=True), 1)
        _await_levels(cluster, levels)
        cluster.ask(heartbeat, 0, "streams")
    finally:
        cluster.close()
    return cluster.transcript


def test_unstable_levels_need_the_setting_as_in_kafka(pair: Pair) -> None:
    case = pair.case
    for config, updates, levels in (
        (_CONFIG, case.refused, {}),
        (_ENABLED, case.accepted, case.levels),
    ):
        transcripts = []
        for target in pair.targets:
            target.configure(config)
            target.start()
            transcripts.append(_play(target.port, updates, levels))
            target.stop()
        lines = differences(*transcripts)
        assert not lines, "\n".join(lines)
    real, emulator = pair.targets
    for target in pair.targets:
        target.configure(_CONFIG)
    with pytest.raises(UnavailableError):
        real.start()
    assert "Tried to apply FeatureLevelRecord" in real.log_text()
    with pytest.raises(AssertionError):
        emulator.start()
    assert "with unstable.feature.versions.enable=true: start with a release" in emulator.log_tail()
    emulator.configure(_ENABLED)
    emulator.start()
    _, _, finalized = api_versions(emulator.port, 4)
    assert case.levels.items() <= {name: level for name, (level, _) in finalized.items()}.items()
    emulator.stop()


@pytest.mark.parametrize("release", ["3.9", "4.1", "4.4"])
def test_a_cluster_that_is_formatted_with_the_setting_has_the_levels_of_kafka(
    release: str, tmp_path: Path
) -> None:
    with required():
        kafka = RealKafka(tmp_path / "kafka", _ENABLED, release=LATEST_PATCH[release])
        kafka.prepare()
    options = ("--as-version", release)
    emulator = ServedKafkalite(tmp_path / "emulator", _ENABLED, options=options)
    transcripts = []
    for target in (kafka, emulator):
        try:
            target.start()
            transcripts.append(_play(target.port, (), {}))
        finally:
            target.kill()
    lines = differences(*transcripts)
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    ("release", "levels"),
    [
        ("3.9", {GROUP: 1, TRANSACTION: 1}),
        ("4.1", {STREAMS: 1, SHARE: 1}),
        ("4.3", {SHARE: 2}),
    ],
)
@pytest.mark.parametrize("config", [_CONFIG, _ENABLED], ids=["stable", "unstable"])
def test_levels_that_kafka_does_not_format_are_refused(
    release: str, levels: Mapping[str, int], config: Mapping[str, str], tmp_path: Path
) -> None:
    with required():
        jar_directory(LATEST_PATCH[release])
    for name, level in levels.items():
        kafka = RealKafka(
            tmp_path / name, config, release=LATEST_PATCH[release], features={name: str(level)}
        )
        assert _accepts(kafka) is _can_start({**config, name: str(level)}, release), name


def _accepts(kafka: RealKafka) -> bool:
    try:
        kafka.prepare()
    except UnavailableError:
        return False
    return True


def _can_start(config: Mapping[str, str], release: str) -> bool:
    try:
        BrokerConfig.from_text(config, as_version=release)
    except ConfigError:
        return False
    return True


def test_a_directory_of_the_newest_release_is_refused_by_an_earlier_one(tmp_path: Path) -> None:
    release = LATEST_PATCH["4.1"]
    with required():
        jar_directory(release)
        kafka = RealKafka(tmp_path / "kafka", _CONFIG, release=LATEST_PATCH[DEFAULT])
        kafka.start()
    emulator = ServedKafkalite(tmp_path / "emulator", _CONFIG)
    emulator.start()
    before = api_versions(emulator.port, 4)
    for target in (kafka, emulator):
        target.stop()
    earlier = RealKafka(tmp_path / "kafka", _CONFIG, release=release)
    earlier.configure(_CONFIG)
    with pytest.raises(UnavailableError):
        earlier.start()
    options = ("--as-version", "4.1")
    with pytest.raises(AssertionError):
        ServedKafkalite(tmp_path / "emulator", _CONFIG, options=options).start()
    assert "metadata.version is at level 33, but Kafka 4.1 has levels" in emulator.log_tail()
    emulator.start()
    assert api_versions(emulator.port, 4) == before
    emulator.stop()
