"""The unit tests mirror the package: whoever looks for a module's tests knows where they are."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.source import PACKAGE, ROOT, hand_written_modules

UNIT = ROOT / "tests" / "unit"

JUDGED_ELSEWHERE = {
    "__main__.py": "tests/unit/cli/test_serve.py",
    "apis/authorized.py": "tests/unit/apis/test_discovery.py",
    "apis/config_layers.py": "tests/unit/apis/test_configs.py",
    "apis/contract.py": "tests/unit/apis/test_dispatch.py",
    "apis/log_levels.py": "tests/unit/apis/test_alter_configs.py",
    "apis/offset_fetch.py": "tests/unit/apis/test_offsets.py",
    "apis/share_reading.py": "tests/unit/apis/test_share_fetch.py",
    "apis/topic_configs.py": "tests/unit/apis/test_topics.py",
    "capture/transcript.py": "tests/unit/capture/test_scribe.py",
    "cli/main.py": "tests/unit/cli/test_serve.py",
    # The steps from a capture's bytes to its tables: each is judged by what comes out at the end,
    # against the scalar reader.
    **{
        f"columnar/{name}.py": "tests/unit/columnar/test_reading.py"
        for name in (
            "arrays",
            "captured",
            "chunks",
            "classic",
            "connections",
            "exact",
            "exchanging",
            "files",
            "following",
            "found",
            "heads",
            "lines",
            "options",
            "payloads",
            "remnants",
            "rows",
            "tokens",
        )
    },
    "columnar/memory.py": "tests/unit/columnar/test_walk.py",
    "columnar/spanning.py": "tests/unit/columnar/test_stitching.py",
    "config/log_config.py": "tests/unit/config/test_topic.py",
    "coordinator/active.py": "tests/unit/coordinator/test_runtime.py",
    # A table is judged whole, key by key against what Kafka has.
    **{
        f"config/tables/{name}_keys.py": "tests/unit/config/test_keys.py"
        for name in (
            "cluster",
            "group",
            "group_own",
            "kafkalite",
            "log",
            "network",
            "remote",
            "security",
            "topic_own",
        )
    },
    # The classic protocol is one machine in several files: a scenario goes through all of them.
    **{
        f"groups/classic/{name}.py": "tests/scenarios/test_classic_rebalance.py"
        for name in (
            "answers",
            "draft",
            "groups",
            "join",
            "leave",
            "rebalance",
            "refusals",
            "sessions",
        )
    },
    "groups/classic/describe.py": "tests/unit/apis/test_group_admin.py",
    "groups/classic/group.py": "tests/scenarios/test_offsets.py",
    "groups/classic/member.py": "tests/unit/groups/classic/test_membership.py",
    "groups/classic/states.py": "tests/unit/groups/classic/test_membership.py",
    "groups/consumer/admission.py": "tests/unit/groups/consumer/test_heartbeat.py",
    "groups/consumer/beat.py": "tests/unit/groups/consumer/test_heartbeat.py",
    "groups/consumer/group.py": "tests/unit/groups/consumer/test_replay.py",
    "groups/consumer/records.py": "tests/unit/groups/consumer/test_replay.py",
    "groups/events.py": "tests/unit/groups/consumer/test_events.py",
    "groups/coordinator.py": "tests/scenarios/test_offsets.py",
    # A migration goes through both protocols' machines at once.
    "groups/migration/downgrade.py": "tests/scenarios/test_group_migration.py",
    "groups/migration/joins.py": "tests/scenarios/test_group_migration.py",
    "groups/migration/members.py": "tests/scenarios/test_group_migration.py",
    "groups/migration/upgrade.py": "tests/scenarios/test_group_migration.py",
    "groups/offsets.py": "tests/scenarios/test_offsets.py",
    "groups/records.py": "tests/scenarios/test_offsets.py",
    "groups/share/admission.py": "tests/unit/groups/share/test_heartbeat.py",
    "groups/share/beat.py": "tests/unit/groups/share/test_heartbeat.py",
    "groups/share/group.py": "tests/unit/groups/share/test_replay.py",
    "groups/share/records.py": "tests/unit/groups/share/test_replay.py",
    "groups/shard.py": "tests/properties/test_group_replay.py",
    # One machine in several files: a scenario goes through all of them.
    **{
        f"groups/streams/{name}.py": "tests/scenarios/test_streams_groups.py"
        for name in (
            "admission",
            "beat",
            "commits",
            "describe",
            "endpoints",
            "events",
            "group",
            "heartbeat",
            "records",
            "replay",
        )
    },
    "groups/sweeps.py": "tests/scenarios/test_kip_211.py",
    "metadata/changes.py": "tests/unit/metadata/test_controller.py",
    "metadata/config_rules.py": "tests/unit/metadata/test_configs.py",
    "metadata/shard.py": "tests/properties/test_metadata_replay.py",
    # A replay is whole or nothing: a capture played on a broker goes through all of them.
    **{
        f"replay/{name}.py": "tests/unit/replay/test_player.py"
        for name in ("calls", "judging", "lanes", "paths", "target", "topic_ids")
    },
    # And on several nodes through all of these.
    **{
        f"replay/{name}.py": "tests/unit/replay/test_routing.py"
        for name in ("places", "routes", "sessions", "subjects")
    },
    "replay/answers.py": "tests/unit/replay/test_standin.py",
    "replay/explained.py": "tests/captures/test_replay.py",
    "replay/strict.py": "tests/unit/replay/test_standin.py",
    "replay/sides.py": "tests/unit/replay/test_differing.py",
    "replay/telling.py": "tests/unit/replay/test_report.py",
    "server/admission.py": "tests/unit/server/test_connection.py",
    # The driver's part of the pipeline does nothing without a session.
    **{
        f"spark/{name}.py": "tests/spark/test_pipeline.py"
        for name in ("inputs", "pipeline", "stitch")
    },
    "spark/sources/contract.py": "tests/unit/spark/sources/test_capture.py",
    # States and audits are queries: stories of which the truth is known go through them all.
    **{
        f"spark/{name}.py": "tests/spark/test_audits.py"
        for name in (
            "audits/classic",
            "audits/connect",
            "audits/contract",
            "audits/fencing",
            "audits/health",
            "audits/judging",
            "audits/members",
            "audits/metadata",
            "audits/producers",
            "audits/spared",
            "audits/verdicts",
            "state/commits",
            "state/epochs",
            "state/errors",
            "state/extent",
            "state/generations",
            "state/holdings",
            "state/marks",
            "state/order",
            "state/producing",
            "state/repeats",
            "state/spans",
            "state/subscriptions",
            "state/tables",
            "state/topics",
            "state/turns",
            "state/views",
        )
    },
    "spark/batch.py": "tests/spark/test_follow.py",
    "spark/follow.py": "tests/spark/test_follow.py",
    "spark/report/reading.py": "tests/spark/test_report.py",
    "spark/report/words.py": "tests/unit/spark/report/test_sections.py",
    "spark/report/writers.py": "tests/unit/spark/report/test_sections.py",
}
"""module → the test module that judges it, where that is not its own; the list only shrinks."""

ONLY_SHAPES = {
    "apis/context.py",
    "coordinator/contract.py",
    "groups/assignors/contract.py",
    "groups/classic/caller.py",
    "groups/consumer/member.py",
    "groups/directory.py",
    "groups/group.py",
    "groups/offset.py",
    "groups/share/intents.py",
    "groups/share/member.py",
    "groups/streams/member.py",
    "replay/options.py",
    "storage/marker.py",
    "spark/report/model.py",
    "transactions/intents.py",
}
"""Modules of types and values without a decision of their own: mypy judges them."""

STANDS_IN = {"testing/clock.py", "testing/coordinator_log.py", "testing/entropy.py"}
"""What stands in for the world in nearly every test."""


def test_every_module_has_its_tests() -> None:
    excused = {*JUDGED_ELSEWHERE, *ONLY_SHAPES, *STANDS_IN}
    without = [
        relative.as_posix()
        for path in hand_written_modules()
        if path.stem != "__init__"
        and not (
            UNIT / (relative := path.relative_to(PACKAGE)).parent / f"test_{path.name}"
        ).exists()
        and relative.as_posix() not in excused
    ]
    assert without == []


def test_what_is_excused_is_there_and_so_is_what_judges_it() -> None:
    excused = {*JUDGED_ELSEWHERE, *ONLY_SHAPES, *STANDS_IN}
    assert {name for name in excused if not (PACKAGE / name).exists()} == set()
    judges = set(JUDGED_ELSEWHERE.values())
    assert {judge for judge in judges if not (ROOT / judge).exists()} == set()


def test_what_has_tests_of_its_own_is_not_excused() -> None:
    excused = sorted(map(Path, {*JUDGED_ELSEWHERE, *ONLY_SHAPES, *STANDS_IN}))
    assert [name for name in excused if (UNIT / name.parent / f"test_{name.name}").exists()] == []
