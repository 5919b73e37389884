"""Books of a data directory that a broker wrote."""

from __future__ import annotations

from shutil import copytree
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.lab.checker.books import rules
from kafkalite.lab.checker.books.model import LogKey
from kafkalite.lab.checker.books.reading import is_data_directory, read_books
from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.history import History
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.config import ConfigRecord
from kafkalite.storage.batch import build_batch
from kafkalite.storage.record_format import NewRecord
from kafkalite.testing import Broker
from kafkalite.transactions.state import TransactionState

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with two transactions, a commit in one of them, and another commit."""
    path = tmp_path_factory.mktemp("data")
    with Broker(topics={"orders": 1}, data_directory=path) as broker:
        config = broker.client_config("librdkafka")
        producer = Producer(config | {"transactional.id": "payments"})
        producer.init_transactions()
        reader = Consumer(
            config
            | {
                "group.id": "shop",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        reader.assign([TopicPartition("orders", 0, 0)])
        for is_commit in (True, False):
            producer.begin_transaction()
            producer.produce("orders", b"a record")
            producer.flush(10)  # an abort discards the records that are not sent
            metadata = reader.consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition("orders", 0, 0)], metadata)
            (producer.commit_transaction if is_commit else producer.abort_transaction)()
            if is_commit:
                assert len(reader.consume(1, 10)) == 1
        reader.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
        reader.close()
    return path


def test_the_books_have_logs_commits_and_transactions(directory: Path) -> None:
    assert is_data_directory(directory)
    books = read_books([directory])
    assert not books.unreadable
    log = books.logs[LogKey("orders", 0)]
    assert [each.is_commit for each in log.batches] == [None, True, None, False]
    assert (log.start_offset, log.end_offset, log.damage) == (0, 4, None)
    assert [(each.group, each.topic, each.offset) for each in books.commits] == [
        ("shop", "orders", 0),
        ("shop", "orders", 4),
    ]
    states = [each.state.state for each in books.transactions["payments"]]
    assert TransactionState.PREPARE_COMMIT in states
    assert states[-1] is TransactionState.COMPLETE_ABORT
    assert check(History.empty(), books).findings == ()


def test_a_damaged_byte_is_found_where_it_is(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    (copy / "orders-0").mkdir(parents=True)
    (copy / "meta.properties").write_bytes((directory / "meta.properties").read_bytes())
    name = "orders-0/00000000000000000000.log"
    content = bytearray((directory / name).read_bytes())
    second = read_books([directory]).logs[LogKey("orders", 0)].batches[1].proof
    content[second.position + 40] ^= 1
    (copy / name).write_bytes(content)
    (finding,) = check(History.empty(), read_books([copy])).violations
    assert (finding.rule, finding.cause) == (rules.DAMAGED, rules.WITHIN)
    assert str(finding.proofs[0]) == f"{copy / name}:{second.position} (offset 1)"
    (copy / name).write_bytes(content[: second.position + 40])
    (warning, *_) = check(History.empty(), read_books([copy])).findings
    assert (warning.rule, warning.cause) == (rules.DAMAGED, rules.AT_END)


def test_damage_in_a_coordinators_log_is_found(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copytree(directory, copy)
    (segment,) = (
        each for each in copy.glob("__consumer_offsets-*/*.log") if each.stat().st_size > 0
    )
    segment.write_bytes(segment.read_bytes()[:-5])
    (warning,) = check(History.empty(), read_books([copy])).of_rule(rules.DAMAGED)
    assert (warning.cause, str(warning.partition)) == (rules.AT_END, segment.parent.name)


def test_compacted_topics_are_known_without_the_start_of_the_metadata(
    directory: Path, tmp_path: Path
) -> None:
    """A broker deletes the start of the metadata log after it has written a snapshot."""
    metadata = tmp_path / "__cluster_metadata-0"
    metadata.mkdir()
    (tmp_path / "meta.properties").write_bytes((directory / "meta.properties").read_bytes())
    (metadata / "00000000000000000500.log").touch()
    record = ConfigRecord(
        resource_type=2, resource_name="names", name="cleanup.policy", value="compact"
    )
    snapshot = build_batch([NewRecord(None, codec.encode_metadata_record(record, 0), 0)])
    for offset, content in ((200, b""), (500, snapshot)):
        (metadata / f"{offset:020}-0000000003.checkpoint").write_bytes(content)
    assert read_books([tmp_path]).compacted_topics == {"names"}
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nstates 0 40\n")
    assert read_books([tmp_path]).compacted_topics == {"names", "states"}
