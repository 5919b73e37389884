"""A Java producer selects its transaction protocol by the broker's presented release."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.storage.batch import BatchView, split_batches
from kafkalite.testing import Broker
from tests.conformance.raw import RawClient
from tests.oracle.jars import java_command
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_TOPIC: Final = "transacted"
_RECORDS: Final = 12
_FETCH: Final = 12
_TIMEOUT_S: Final = 60


def run_transactions(bootstrap: str) -> None:
    """Run Kafka's own benchmark, which sends each record in a separate transaction."""
    with required():
        command = java_command(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", _TOPIC, "--num-records", f"{_RECORDS}", "--record-size", "10"),
            *("--throughput", "-1", "--transactional-id", "teller"),
            *("--transaction-duration-ms", "1"),
            *("--producer-props", f"bootstrap.servers={bootstrap}", "linger.ms=0"),
        )
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert completed.returncode == 0, completed.stderr[-2000:]


def log_of(port: int) -> list[BatchView]:
    """Return every batch of the topic, markers included."""
    client = RawClient(port)
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20
    )
    topic = FetchRequest.FetchTopic(topic=_TOPIC, partitions=[partition])
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic]
    )
    answer = client.call(request, _FETCH)
    client.close()
    return split_batches(bytes(answer.responses[0].partitions[0].records))


@pytest.mark.parametrize(
    ("release", "config", "has_an_epoch_each"),
    [
        ("3.9", {}, False),
        ("4.0", {}, True),
        (None, {"transaction.version": 1}, False),
    ],
)
def test_a_java_producer_ends_transactions_as_the_release_does(
    release: str | None,
    config: Mapping[str, int],
    has_an_epoch_each: bool,  # noqa: FBT001
) -> None:
    with Broker(topics={_TOPIC: 1}, config=config, as_version=release) as broker:
        run_transactions(broker.bootstrap_servers)
        batches = log_of(int(broker.bootstrap_servers.rpartition(":")[2]))
    written = [batch for batch in batches if not batch.is_control]
    markers = [batch for batch in batches if batch.is_control]
    assert sum(batch.record_count for batch in written) == _RECORDS
    assert len(markers) > 1
    epochs = [batch.producer_epoch for batch in markers]
    # With KIP-890 each end increases the epoch, which only EndTxn v5 returns to the client.
    assert len(set(epochs)) == (len(epochs) if has_an_epoch_each else 1)
