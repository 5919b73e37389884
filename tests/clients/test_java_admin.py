"""The Java Admin client: every call is answered, and the answers are correct.

`tests/conformance` compares the answers with those of a real Kafka.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.clients.admin import Answer, admin_sweep
from tests.oracle.fixtures import running_broker
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_TOPIC = "admin-topic"
_GROUPED = "admin-grouped"
_TUNED = "ConfigResource(type=TOPIC, name='admin-tuned')"
_GROUP = "ConfigResource(type=GROUP, name='admin-tuned-group')"
_BROKER = "ConfigResource(type=BROKER, name='1')"
_LOGGERS = "ConfigResource(type=BROKER_LOGGER, name='1')"


def _error(name: str) -> Answer:
    return {"error": f"{name}Exception"}


def _offsets(*offsets: int, timestamps: tuple[int, ...] = (-1, -1, -1)) -> Answer:
    return {
        f"{_TOPIC}-{index}": [
            offset,
            timestamps[index],
            "Optional.empty" if offset < 0 else "Optional[0]",
        ]
        for index, offset in enumerate(offsets)
    }


def _committed(offset: int, metadata: str = "") -> str:
    return f"OffsetAndMetadata{{offset={offset}, leaderEpoch=null, metadata='{metadata}'}}"


_BOTH_COMMITTED: Answer = {
    f"{_GROUPED}-0": _committed(1, "note"),
    f"{_GROUPED}-1": _committed(2),
}

# Calls whose complete result is known in advance.
ANSWERS: dict[str, Answer] = {
    "createTopics refused": {
        "admin-config": _error("InvalidConfiguration"),
        "admin-none": _error("InvalidPartitions"),
        "admin-placed": _error("InvalidReplicaAssignment"),
        "admin-topic": _error("TopicExists"),
        "admin-value": _error("InvalidConfiguration"),
        "admin-wide": _error("InvalidReplicationFactor"),
        "bad name": _error("InvalidTopic"),
    },
    "createPartitions": {
        "admin-by-id": _error("InvalidPartitions"),
        "admin-missing": _error("UnknownTopicOrPartition"),
        _TOPIC: "null",
    },
    "createPartitions validateOnly": {_TOPIC: "null"},
    "listTopics": {"has": True, "internal": ["false false"]},
    "describeTopics unknown": {
        "admin-missing": _error("UnknownTopicOrPartition"),
        "bad name": _error("InvalidTopic"),
    },
    "describeTopics unknown id": _error("UnknownTopicId"),
    "produce": "done",
    "listOffsets earliest": _offsets(0, 0, 0),
    "listOffsets latest": _offsets(4, 4, 4),
    "listOffsets forTimestamp": _offsets(
        0, 0, 0, timestamps=(1_700_000_000_000, 1_699_999_999_000, 1_699_999_998_000)
    ),
    "listOffsets forTimestamp never": _offsets(-1, -1, -1),
    "listOffsets maxTimestamp": _offsets(
        0, 0, 0, timestamps=(1_700_000_000_000, 1_699_999_999_000, 1_699_999_998_000)
    ),
    "listOffsets earliestLocal": _offsets(0, 0, 0),
    "listOffsets latestTiered": _offsets(-1, -1, -1),
    "listOffsets earliestPendingUpload": _offsets(-1, -1, -1),
    "deleteRecords": {f"{_TOPIC}-0": 2, f"{_TOPIC}-1": 4},
    "deleteRecords too far": _error("OffsetOutOfRange"),
    "listOffsets earliest after deleteRecords": _offsets(2, 4, 0),
    "electLeaders preferred": {f"{_TOPIC}-0": "ElectionNotNeededException"},
    "electLeaders unclean": {f"{_TOPIC}-0": "ElectionNotNeededException"},
    "describeCluster fenced": 1,
    "describeReplicaLogDirs": [True, 0, "null"],
    "metrics": True,
    "deleteTopics by id": "done",
    "deleteTopics": {"admin-missing": _error("UnknownTopicOrPartition"), _TOPIC: "null"},
    "deleteTopics unknown id": _error("UnknownTopicId"),
    "listTopics after deleteTopics": [],
    "describeConfigs unknown topic": _error("UnknownTopicOrPartition"),
    "describeConfigs loggers": True,
    "incrementalAlterConfigs set": {_TUNED: "null"},
    "incrementalAlterConfigs subtract and delete": {_TUNED: "null"},
    "incrementalAlterConfigs group": {_GROUP: "null"},
    "incrementalAlterConfigs broker": {_BROKER: "null"},
    "incrementalAlterConfigs unknown key": {_TUNED: _error("InvalidConfiguration")},
    "incrementalAlterConfigs bad value": {_TUNED: _error("InvalidConfiguration")},
    "incrementalAlterConfigs append to a number": {_TUNED: _error("InvalidConfiguration")},
    "incrementalAlterConfigs read-only broker key": {_BROKER: _error("InvalidRequest")},
    "incrementalAlterConfigs bad group value": {_GROUP: _error("InvalidConfiguration")},
    "incrementalAlterConfigs validateOnly": "done",
    "listConfigResources": [_GROUP, _TUNED],
    "listConfigResources brokers": [_BROKER],
    "listConfigResources all": [_BROKER, _LOGGERS, _GROUP, _TUNED],
    "listGroups": [
        ["admin-classic", "consumer", "Optional[Classic]", "Optional[Stable]"],
        ["admin-consumer", "consumer", "Optional[Consumer]", "Optional[Stable]"],
    ],
    "listGroups classic": [["admin-classic", "consumer", "Optional[Classic]", "Optional[Stable]"]],
    "listGroups empty": [],
    "describeConsumerGroups unknown": _error("GroupIdNotFound"),
    "listConsumerGroupOffsets": {
        "admin-classic": _BOTH_COMMITTED,
        "admin-consumer": _BOTH_COMMITTED,
    },
    "deleteConsumerGroups of a group with members": {
        "admin-classic": _error("GroupNotEmpty"),
        "admin-consumer": _error("GroupNotEmpty"),
    },
    "alterConsumerGroupOffsets of a group with members": _error("UnknownMemberId"),
    "deleteConsumerGroupOffsets of a subscribed topic": _error("GroupSubscribedToTopic"),
    "removeMembersFromConsumerGroup unknown": _error("UnknownMemberId"),
    "removeMembersFromConsumerGroup": "done",
    "removeMembersFromConsumerGroup all": "done",
    "describeConsumerGroups empty": ["Empty", 0],
    "alterConsumerGroupOffsets": "done",
    "alterConsumerGroupOffsets simple": "done",
    "alterConsumerGroupOffsets unknown topic": _error("UnknownTopicOrPartition"),
    "deleteConsumerGroupOffsets": "done",
    "listConsumerGroupOffsets altered": {
        "admin-classic": {
            f"{_GROUPED}-0": _committed(0, "moved"),
            f"{_GROUPED}-1": _committed(2),
        },
        "admin-consumer": {f"{_GROUPED}-1": _committed(2)},
        "admin-simple": {f"{_GROUPED}-0": _committed(2)},
    },
    "listConsumerGroupOffsets unknown": {"admin-missing": {}},
    "deleteConsumerGroups": {
        "admin-classic": "null",
        "admin-consumer": "null",
        "admin-missing": _error("GroupIdNotFound"),
        "admin-simple": "null",
    },
    "listGroups after deleteConsumerGroups": [],
}


_FRESH, _BOTH_OPEN = (
    "admin-fresh Empty true",
    ["admin-ended Ongoing true", "admin-open Ongoing true"],
)
_ENDED: Answer = {
    "coordinator": 1,
    "hasProducer": True,
    "epoch": 3,
    "state": "EMPTY",
    "hasStart": False,
    "partitions": [],
    "timeoutMs": 30_000,
}

# The same for calls about transactions.
TRANSACTION_ANSWERS: dict[str, Answer] = {
    "fenceProducers of an unknown id": [True, 0],
    "fenceProducers again": [True, 1],
    "listTransactions": [_BOTH_OPEN[0], _FRESH, _BOTH_OPEN[1]],
    "listTransactions ongoing": [*_BOTH_OPEN],
    "listTransactions of unknown states": [],
    "listTransactions of a producer": [_BOTH_OPEN[1]],
    "listTransactions of no producer": [],
    # A transaction that is not open has no start time.
    "listTransactions open for an hour": [_FRESH],
    "listTransactions open for a moment": [_BOTH_OPEN[0], _FRESH, _BOTH_OPEN[1]],
    "listTransactions by pattern": [_BOTH_OPEN[1]],
    "listTransactions by part of an id": [],
    "listTransactions by no pattern": {"error": "InvalidRegularExpression"},
    "listTransactions by broker": [1],
    "describeTransactions 'admin-missing'": _error("TransactionalIdNotFound"),
    "describeTransactions ''": _error("InvalidRequest"),
    "abortTransaction at an older epoch": _error("InvalidProducerEpoch"),
    "abortTransaction": "done",
    "abortTransaction again": "done",
    "fenceProducers of an open transaction": [True, 3],
    "commit after fenceProducers": _error("ProducerFenced"),
    "describeTransactions after fenceProducers": _ENDED,
    "forceTerminateTransaction": "done",
    "send after forceTerminateTransaction": _error("InvalidProducerEpoch"),
    "describeTransactions after forceTerminateTransaction": _ENDED,
    "listTransactions after all": ["admin-ended Empty true", _FRESH, "admin-open Empty true"],
}


@pytest.fixture(scope="package")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], dict[str, Answer]]:
    """Return a function that runs the sweep once for each attempt, with a broker of its own."""

    @cache
    def sweep_of(_attempt: int) -> dict[str, Answer]:
        with running_broker(tmp_path_factory.mktemp("swept")) as broker, required():
            cells = admin_sweep(broker.bootstrap)["cells"]
        return {name: cell["answer"] for name, cell in cells.items()}

    return sweep_of


@pytest.fixture
def sweep(sweeps: Callable[[int], dict[str, Answer]], attempt: int) -> dict[str, Answer]:
    """Return the answers of the sweep that all tests share."""
    return sweeps(attempt)


@pytest.mark.parametrize("call", ANSWERS | TRANSACTION_ANSWERS)
def test_call_has_the_expected_answer(sweep: dict[str, Answer], call: str) -> None:
    assert sweep[call] == (ANSWERS | TRANSACTION_ANSWERS)[call]


def _value_at(answer: Answer, *path: str | int) -> Answer:
    for step in path:
        if isinstance(answer, list):
            assert isinstance(step, int)
            answer = answer[step]
        else:
            assert isinstance(answer, dict)
            answer = answer[str(step)]
    return answer


def test_a_created_topic_reports_what_was_made(sweep: dict[str, Answer]) -> None:
    created = sweep["createTopics"]
    assert _value_at(created, "hasId") is True
    assert (_value_at(created, "partitions"), _value_at(created, "replicationFactor")) == (2, 1)
    assert _value_at(created, "config", "retention.ms", "value") == "3600000"
    assert _value_at(created, "config", "retention.ms", "source") == "DYNAMIC_TOPIC_CONFIG"
    defaults = sweep["createTopics defaults"]
    assert (_value_at(defaults, "partitions"), _value_at(defaults, "replicationFactor")) == (6, 1)


def test_topics_are_described_by_name_by_id_and_in_pages(sweep: dict[str, Answer]) -> None:
    partition = _value_at(sweep["describeTopics"], _TOPIC, "partitions", 2)
    assert isinstance(partition, dict)
    assert partition == {
        "partition": 2,
        "leader": {"id": 1, "host": "127.0.0.1", "hasRack": False},
        "replicas": [1],
        "isr": [1],
        "elr": [],
        "lastKnownElr": [],
    }
    assert "READ" in str(_value_at(sweep["describeTopics"], _TOPIC, "operations"))
    # By id the client uses Metadata, which does not return eligible leaders.
    by_id = _value_at(sweep["describeTopics by id"], _TOPIC, "partitions", 2)
    assert by_id == {**partition, "elr": None, "lastKnownElr": None}
    assert _value_at(sweep["describeTopics in pages"], _TOPIC, "partitions", 2) == partition
    assert (
        _value_at(sweep["describeTopics in pages"], "admin-by-id", "partitions", 5, "partition")
        == 5
    )


def test_configs_come_with_source_type_synonyms_and_documentation(sweep: dict[str, Answer]) -> None:
    assert _value_at(sweep["describeConfigs topic set"], "cleanup.policy") == {
        "value": "delete,compact",
        "source": "DYNAMIC_TOPIC_CONFIG",
        "type": "LIST",
        "readOnly": False,
        "sensitive": False,
        "documented": True,
        "synonyms": [
            ["DYNAMIC_TOPIC_CONFIG", "cleanup.policy", "delete,compact"],
            ["DEFAULT_CONFIG", "log.cleanup.policy", "delete"],
        ],
    }
    assert (
        _value_at(sweep["describeConfigs topic subtracted"], "cleanup.policy", "value") == "compact"
    )
    by_broker = _value_at(sweep["describeConfigs topic by broker"], "synonyms")
    assert by_broker == [
        ["DYNAMIC_BROKER_CONFIG", "log.retention.ms", "7200000"],
        ["DYNAMIC_DEFAULT_BROKER_CONFIG", "log.retention.ms", "3600000"],
        ["DEFAULT_CONFIG", "log.retention.hours", "168"],
    ]
    assert _value_at(sweep["describeConfigs broker"], "num.partitions", "value") == "6"
    assert _value_at(
        sweep["describeConfigs group set"], "consumer.session.timeout.ms", "value"
    ) == ("46000")


def test_the_cluster_is_described_with_features_and_log_directories(
    sweep: dict[str, Answer],
) -> None:
    cluster = sweep["describeCluster"]
    assert _value_at(cluster, "nodes") == [{"id": 1, "host": "127.0.0.1", "hasRack": False}]
    assert (_value_at(cluster, "controller"), _value_at(cluster, "idLength")) == (1, 22)
    features = _value_at(sweep["describeFeatures"], "finalized")
    assert _value_at(features, "group.version") == (
        "FinalizedVersionRange[min_version_level:1, max_version_level:1]"
    )
    for index in range(3):
        size, *details = _list(_value_at(sweep["describeLogDirs"], f"{_TOPIC}-{index}"))
        assert isinstance(size, int)
        assert size > 0
        assert details == [0, False, True, "null"]


@pytest.mark.parametrize("group", ["admin-classic", "admin-consumer"])
def test_groups_are_described_with_members_and_assignments(
    sweep: dict[str, Answer], group: str
) -> None:
    described = _value_at(sweep["describeConsumerGroups"], group)
    assert _value_at(described, "state") == "STABLE"
    (member,) = _list(_value_at(described, "members"))
    assert _value_at(member, "host") == "/127.0.0.1"
    assert _value_at(member, "partitions") == [f"{_GROUPED}-{index}" for index in range(3)]


def test_an_open_transaction_is_described_with_its_producers(sweep: dict[str, Answer]) -> None:
    assert sweep["describeTransactions 'admin-open'"] == {
        "coordinator": 1,
        "hasProducer": True,
        "epoch": 1,
        "state": "ONGOING",
        "hasStart": True,
        "partitions": ["admin-transacted-0"],
        "timeoutMs": 60_000,
    }
    _, writes = _list(sweep["describeProducers admin-transacted-0"])
    assert writes == (
        "epoch 1, last sequence 0, coordinator OptionalInt[0], open since OptionalLong[2], true"
    )


def _list(answer: Answer) -> list[Answer]:
    assert isinstance(answer, list)
    return answer
