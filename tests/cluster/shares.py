"""ShareCluster: a TestCluster with a topic that members of a share group read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.apis.shares import acknowledge, fetch, state
from kafkalite.gateway.call import ConnectionContext
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.share_acknowledge import ShareAcknowledgeRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import BatchView
from kafkalite.testing.clock import ManualClock
from tests.cluster.cluster import TestCluster
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.files import Files

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
FIRST, LAST = 0, -1
LOCK_MS = 30_000
APIS = {api.key: api for module in (fetch, acknowledge, state) for api in module.APIS}

Ack = tuple[int, int, int | list[int]]
"""First and last offset, and one type for all records or one for each."""
AcquiredRecords = tuple[int, int, int]


class ShareCluster(TestCluster):
    """A cluster with a topic `t`, which the share group `g` reads."""

    def __init__(
        self,
        path: Path,
        *,
        partitions: int = 1,
        nodes: int = 1,
        start: int = 0,
        config: Mapping[str, str] | None = None,
        as_version: str | None = None,
        files: Files | None = None,
    ) -> None:
        self._connections: dict[str, ConnectionContext] = {}
        super().__init__(path, nodes, config, files=files, as_version=as_version)
        self.topic_id = self.create("t", partitions)
        self.cluster.shares.ensure_topic()
        for index in range(partitions):
            self.begin(index, start=start)

    def end(self) -> None:
        """Close the cluster and all connections."""
        self._connections.clear()
        super().end()

    def restart_after_kill(self, files: Files | None = None) -> None:
        """Start on the disk that a killed process has left.

        By default, kill this process now. Otherwise its timers do not run any more.
        """
        self._connections.clear()
        if files is None:
            self.cluster.share_partitions.stop()
            self._directory.release_lock()
        else:
            self._files = files
            self.clock = ManualClock(self.clock.now_ms())
        self._start()

    def begin(self, index: int = 0, *, group: str = "g", start: int = 0, epoch: int = 0) -> None:
        """Initialize the share state of a partition."""
        self.cluster.shares.initialize_state(
            group, self.topic_id, index, state_epoch=epoch, start_offset=start
        )

    def log(self, index: int = 0) -> Partition:
        """Return a partition of the topic."""
        partition = self.cluster.partitions.get(self.topic_id, index)
        assert partition is not None
        return partition

    def produce(self, *sizes: int, index: int = 0) -> None:
        """Append batches with the given numbers of records."""
        for size in sizes:
            batch = BatchView(batch_of(*[b"v"] * size, timestamp=self.clock.now_ms()))
            self.log(index).append(batch, self.clock.now_ms())
        self.cluster.partitions.announce()

    def context(self, connection: str = "main", node_id: int = 1) -> ConnectionContext:
        """Return a connection by name."""
        if connection not in self._connections:
            self._connections[connection] = ConnectionContext(
                node=self.cluster.nodes[node_id],
                listener="PLAINTEXT",
                client_host="/127.0.0.1",
            )
        return self._connections[connection]

    def close_connection(self, connection: str) -> None:
        """Close a connection."""
        for close in self._connections.pop(connection).on_close.values():
            close()

    def handle(
        self,
        request: Any,  # noqa: ANN401 - one method for all APIs
        version: int = 2,
        connection: str = "main",
        *,
        node_id: int = 1,
    ) -> Any:  # noqa: ANN401 - as above
        """Answer a request like the gateway, but return a Waiting unchanged."""
        api = APIS[request.API_KEY]
        era = None if api.eras is None else api.eras.at(version)
        call = self.context(connection, node_id).call(version, era, 0)
        try:
            return api.handler(call, request)
        except KafkaError as error:
            return api.refuse(request, error.code, error.message)

    def fetch(
        self,
        epoch: int,
        member: str = "a",
        *,
        index: Sequence[int] = (0,),
        acks: Mapping[int, Sequence[Ack]] | None = None,
        connection: str = "main",
        node_id: int = 1,
        **fields: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - an answer, or a Waiting for one
        """Send a share fetch; only the first one of a session names partitions."""
        acks = acks or {}
        named = sorted({*(index if epoch == FIRST else ()), *acks})
        row = ShareFetchRequest.FetchPartition
        request = ShareFetchRequest(
            group_id="g",
            member_id=member,
            share_session_epoch=epoch,
            min_bytes=1,
            max_bytes=1_000_000,
            max_records=500,
            batch_size=500,
            topics=[
                ShareFetchRequest.FetchTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        row(
                            partition_index=each,
                            acknowledgement_batches=[
                                ShareFetchRequest.AcknowledgementBatch(
                                    first_offset=first,
                                    last_offset=last,
                                    acknowledge_types=_words(words),
                                )
                                for first, last, words in acks.get(each, ())
                            ],
                        )
                        for each in named
                    ],
                )
            ]
            if named
            else [],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.handle(request, connection=connection, node_id=node_id)

    def ack(
        self,
        epoch: int,
        *batches: Ack,
        member: str = "a",
        index: int = 0,
        **fields: Any,  # noqa: ANN401
    ) -> tuple[int, int]:
        """Send an acknowledgement; return the error of the response and of the partition."""
        row = ShareAcknowledgeRequest.AcknowledgePartition(
            partition_index=index,
            acknowledgement_batches=[
                ShareAcknowledgeRequest.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=_words(words)
                )
                for first, last, words in batches
            ],
        )
        topic = ShareAcknowledgeRequest.AcknowledgeTopic(topic_id=self.topic_id, partitions=[row])
        request = ShareAcknowledgeRequest(
            group_id="g", member_id=member, share_session_epoch=epoch, topics=[topic]
        )
        for name, value in fields.items():
            setattr(request, name, value)
        answer = self.handle(request)
        rows = [each for topic in answer.responses for each in topic.partitions]
        return answer.error_code, rows[0].error_code if rows else 0


def _words(words: int | list[int]) -> list[int]:
    return [words] if isinstance(words, int) else words


def acquired(answer: Any) -> dict[int, list[AcquiredRecords]]:  # noqa: ANN401 - see ShareCluster.fetch
    """Return the rows of a share fetch by partition; asserts that there is no error."""
    if isinstance(answer, Waiting):
        answer = answer.value
    assert isinstance(answer, ShareFetchResponse)
    assert answer.error_code == 0, answer.error_code
    return {
        row.partition_index: [
            (one.first_offset, one.last_offset, one.delivery_count) for one in row.acquired_records
        ]
        for topic in answer.responses
        for row in topic.partitions
    }


def errors(answer: Any) -> tuple[int, dict[int, tuple[int, int]]]:  # noqa: ANN401 - see above
    """Return the errors of a share fetch: its own, and the fetch and ack errors by partition."""
    if isinstance(answer, Waiting):
        answer = answer.value
    return answer.error_code, {
        row.partition_index: (row.error_code, row.acknowledge_error_code)
        for topic in answer.responses
        for row in topic.partitions
    }
