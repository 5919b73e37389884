"""Every module has unit tests at the mirrored path, or a listed test module elsewhere."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.source import PACKAGE, ROOT, hand_written_modules

UNIT = ROOT / "tests" / "unit"

TESTED_ELSEWHERE = {
    "__main__.py": "tests/unit/cli/test_serve.py",
    "apis/configs/log_levels.py": "tests/unit/apis/configs/test_alter.py",
    "apis/groups/offset_fetch.py": "tests/unit/apis/groups/test_offset_commit.py",
    "capture/recording/connection_writer.py": "tests/unit/capture/recording/test_capture_writer.py",
    "cli/bisect.py": "tests/unit/testing/test_time_travel.py",
    "cli/main.py": "tests/unit/cli/test_serve.py",
    "cli/parsing.py": "tests/unit/cli/test_serve.py",
    "control/commands/bisect.py": "tests/unit/control/time_travel/test_bisection.py",
    **{
        f"control/time_travel/{name}.py": "tests/unit/control/time_travel/test_view.py"
        for name in ("logs", "replay", "scan")
    },
    **{
        f"control/time_travel/{name}.py": "tests/unit/control/time_travel/test_bisection.py"
        for name in ("coordinator_record_text", "values")
    },
    "control/console/source.py": "tests/unit/control/console/test_live_source.py",
    "cli/capture_arguments.py": "tests/unit/cli/test_check.py",
    **{
        f"lab/checker/{name}.py": "tests/unit/lab/checker/test_check.py"
        for name in (
            "collecting",
            "commit_rules",
            "delivery_rules",
            "effective_commits",
            "findings",
            "history",
            "log_rules",
            "transaction_outcomes",
            "transaction_rules",
        )
    },
    **{
        f"{name}/shard_modules.py": "tests/unit/ports/test_module_steps.py"
        for name in ("groups", "transactions")
    },
    "lab/sweep/follow_ups.py": "tests/unit/lab/sweep/test_sweep.py",
    "lab/sweep/runs.py": "tests/unit/lab/sweep/test_sweep.py",
    "lab/checker/books/model.py": "tests/unit/lab/checker/books/test_reading.py",
    "lab/checker/groups/requests.py": "tests/unit/lab/checker/groups/test_timeline.py",
    "lab/checker/observed_history.py": "tests/unit/testing/test_checks.py",
    "lab/checker/report.py": "tests/unit/cli/test_check.py",
    # The steps from a capture's bytes to its tables. The tests compare the resulting tables with
    # those of the scalar reader.
    **{
        f"lab/columnar/{name}.py": "tests/unit/lab/columnar/test_reading.py"
        for name in (
            "arrays",
            "byte_columns",
            "exchanges/exchange_batches",
            "exchanges/sasl_tokens",
            "files/chunked_files",
            "files/packet_index",
            "files/pcap",
            "frames/chunk_frames",
            "frames/frame_index",
            "frames/headers",
            "frames/irregular_connections",
            "frames/irregular_segments",
            "frames/partial_frames",
            "frames/table_rows",
            "options",
            "segments/connection_state",
            "segments/connections",
        )
    },
    **{
        f"lab/columnar/{name}.py": f"tests/unit/lab/columnar/{test}.py"
        for name, test in {
            "decoding/column_buffers": "decoding/test_interpreter",
            "exchanges/spanning_frames": "exchanges/test_stitching",
        }.items()
    },
    "config/log_config.py": "tests/unit/config/test_topic.py",
    "coordinator/active_shard.py": "tests/unit/coordinator/test_runtime.py",
    # All tables are compared with Kafka's settings, key by key.
    **{
        f"config/tables/{name}.py": "tests/unit/config/test_keys.py"
        for name in (
            "cluster",
            "group",
            "kafkalite",
            "log",
            "network",
            "older",
            "remote",
            "security",
            "topic",
        )
    },
    # The classic protocol is one machine in several modules, which scenarios test together.
    **{
        f"groups/classic/{name}.py": "tests/scenarios/test_classic_rebalance.py"
        for name in (
            "decision",
            "groups",
            "join",
            "rebalance",
            "refusals",
            "responses",
            "sessions",
        )
    },
    "gateway/api.py": "tests/unit/gateway/test_gateway.py",
    "gateway/repeated.py": "tests/unit/gateway/test_gateway.py",
    "groups/classic/describe.py": "tests/unit/apis/groups/test_admin.py",
    "groups/classic/group.py": "tests/scenarios/test_offsets.py",
    "groups/classic/member.py": "tests/unit/groups/classic/test_membership.py",
    "groups/consumer/admission.py": "tests/unit/groups/consumer/test_groups.py",
    "groups/consumer/heartbeat.py": "tests/unit/groups/consumer/test_groups.py",
    "groups/consumer/group.py": "tests/unit/groups/consumer/test_replay.py",
    "groups/consumer/consumer_group_records.py": "tests/unit/groups/consumer/test_replay.py",
    "groups/modern/commit_refusals.py": "tests/unit/groups/consumer/test_offset_commit_refusals.py",
    "groups/modern/describe.py": "tests/unit/groups/consumer/test_describe.py",
    "groups/modern/events.py": "tests/unit/groups/consumer/test_events.py",
    "groups/modern/heartbeat.py": "tests/unit/groups/consumer/test_groups.py",
    "groups/modern/reconcile.py": "tests/unit/groups/consumer/test_reconcile.py",
    "groups/modern/steady.py": "tests/unit/groups/consumer/test_steady_heartbeats.py",
    "groups/coordinator.py": "tests/scenarios/test_offsets.py",
    # A migration involves the machines of both protocols.
    "groups/migration/downgrade.py": "tests/scenarios/test_group_migration.py",
    "groups/migration/joins.py": "tests/scenarios/test_group_migration.py",
    "groups/migration/members.py": "tests/scenarios/test_group_migration.py",
    "groups/migration/upgrade.py": "tests/scenarios/test_group_migration.py",
    "groups/offsets_topic_records.py": "tests/scenarios/test_offsets.py",
    "groups/share/admission.py": "tests/unit/groups/share/test_groups.py",
    "groups/share/heartbeat.py": "tests/unit/groups/share/test_groups.py",
    "groups/share/group.py": "tests/unit/groups/share/test_replay.py",
    "groups/share/share_group_records.py": "tests/unit/groups/share/test_replay.py",
    "groups/shard.py": "tests/properties/test_group_replay.py",
    # One machine in several modules, which scenarios test together.
    **{
        f"groups/streams/{name}.py": "tests/scenarios/test_streams_groups.py"
        for name in (
            "admission",
            "offset_validation",
            "describe",
            "events",
            "group",
            "groups",
            "heartbeat",
            "streams_group_records",
            "replay",
        )
    },
    "groups/offset_expiration.py": "tests/scenarios/test_kip_211.py",
    "metadata/changes.py": "tests/unit/metadata/test_controller.py",
    "metadata/config_rules.py": "tests/unit/metadata/test_configs.py",
    "metadata/shard.py": "tests/properties/test_metadata_replay.py",
    "protocol/generator/__main__.py": "tests/unit/protocol/generator/test_files.py",
    # The tests replay a capture on a broker, which involves all these modules.
    **{
        f"lab/replay/player/{name}.py": "tests/unit/lab/replay/player/test_player.py"
        for name in ("connections", "response_checks", "run", "target", "topic_ids")
    },
    # The same, on several nodes.
    **{
        f"lab/replay/player/{name}.py": "tests/unit/lab/replay/player/test_routing.py"
        for name in ("fetch_sessions", "recorded_nodes")
    },
    "lab/replay/comparison/known_differences.py": "tests/captures/test_replay.py",
    **{
        f"lab/replay/standin/{name}.py": "tests/unit/lab/replay/standin/test_standin.py"
        for name in ("recorded_answers", "strict")
    },
    "lab/replay/diff/usage.py": "tests/unit/lab/replay/diff/test_captures.py",
    "lab/replay/report_text.py": "tests/unit/lab/replay/test_report.py",
    # The part that runs in the Spark driver needs a session.
    **{f"lab/spark/{name}.py": "tests/spark/test_pipeline.py" for name in ("inputs", "pipeline")},
    "lab/spark/sources/file_source.py": "tests/unit/lab/spark/sources/test_capture.py",
    # States and audits are queries. The tests run them on generated traffic with known results.
    **{
        f"lab/spark/{name}.py": "tests/spark/test_audits.py"
        for name in (
            "audits/classic",
            "audits/commit_checks",
            "audits/connect",
            "audits/fencing",
            "audits/fencing_rules",
            "audits/members",
            "audits/metadata",
            "audits/producers",
            "state/commits",
            "state/epochs",
            "state/errors",
            "state/generations",
            "state/metadata_views",
            "state/partition_ownership",
            "state/protocol_changes",
            "state/repeated_heartbeats",
            "state/subscriptions",
            "state/tables",
            "state/time_range",
            "state/timing",
            "state/topics",
            "state/windows",
        )
    },
    "lab/spark/follow/batch.py": "tests/spark/test_follow.py",
    "lab/spark/follow/audits.py": "tests/spark/test_follow.py",
    "lab/spark/follow/evidence.py": "tests/spark/test_periods_of_capture.py",
    "lab/spark/report/reading.py": "tests/spark/test_report.py",
    "lab/spark/report/formatting.py": "tests/unit/lab/spark/report/test_sections.py",
    # Tested by requests, through the handlers.
    "partitions/fetching.py": "tests/unit/apis/data/test_fetch.py",
    "partitions/producing.py": "tests/unit/apis/data/test_produce.py",
    "lab/spark/report/producers.py": "tests/unit/lab/spark/report/test_sections.py",
}
"""Module → the test module that covers it. Do not add rows for new modules."""

TYPES_ONLY = {
    "coordinator/contract.py",
    "groups/assignors/contract.py",
    "groups/consumer/member.py",
    "groups/directory.py",
    "groups/modern/member.py",
    "groups/share/intents.py",
    "groups/share/member.py",
    "groups/streams/member.py",
    "lab/replay/options.py",
    "storage/transaction_marker.py",
    "lab/spark/report/model.py",
    "partitions/request_context.py",
    "ports/units.py",
    "transactions/intents.py",
}
"""Modules with types and constants only, which mypy checks."""

TEST_DOUBLES = {"testing/clock.py", "testing/coordinator_log.py"}
"""Test doubles, which most tests use."""


def test_every_module_has_its_tests() -> None:
    listed = {*TESTED_ELSEWHERE, *TYPES_ONLY, *TEST_DOUBLES}
    without = [
        relative.as_posix()
        for path in hand_written_modules()
        if path.stem != "__init__"
        and not (
            UNIT / (relative := path.relative_to(PACKAGE)).parent / f"test_{path.name}"
        ).exists()
        and relative.as_posix() not in listed
    ]
    assert without == []


def test_every_listed_module_and_test_module_exists() -> None:
    listed = {*TESTED_ELSEWHERE, *TYPES_ONLY, *TEST_DOUBLES}
    assert {name for name in listed if not (PACKAGE / name).exists()} == set()
    test_modules = set(TESTED_ELSEWHERE.values())
    assert {path for path in test_modules if not (ROOT / path).exists()} == set()


def test_no_listed_module_has_tests_at_the_mirrored_path() -> None:
    listed = sorted(map(Path, {*TESTED_ELSEWHERE, *TYPES_ONLY, *TEST_DOUBLES}))
    assert [name for name in listed if (UNIT / name.parent / f"test_{name.name}").exists()] == []
