"""`StreamsApplication.java` without Kafka Streams: a member of a streams group that counts words.

Arguments: bootstrap address, application id, input topic, output topic, directory of the state.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any, Final
from uuid import uuid4

from kafkalite.client import OffsetAndEpochs, Producer, TopicPartition
from kafkalite.client.access import Access
from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.coordinator_requests import (
    GROUP,
    administration_retries,
    ask_coordinator,
    error_of,
)
from kafkalite.client.group_offsets import GroupOffsets, Membership
from kafkalite.client.metadata import Metadata
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.protocol.versions import Versions

_VERSIONS: Final = Versions(0, 1)
_STORE: Final = "KSTREAM-AGGREGATE-STATE-STORE-0000000001"
_COUNT: Final = 5
_CHANGELOG_CONFIGS: Final = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


async def _main(bootstrap: str, application: str, source: str, output: str, _: str) -> None:
    process = str(uuid4())
    access = Access(client_id=f"{application}-{process}-StreamThread-1-consumer")
    async with KafkaClient(bootstrap_addresses(bootstrap), access) as client:
        member = _Member(client, application, source, process)
        await member.join()
        await member.commit(TopicPartition(source, 0), _COUNT)
        async with Producer(bootstrap) as producer:
            for number in range(_COUNT):
                await producer.send(TopicPartition(output, 0), b"1", b"key-%d" % number)
        print("state RUNNING", flush=True)  # noqa: T201 - the output of a program
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        await stopped.wait()
        await member.beat(-1)


class _Member:
    """A member with all tasks of a topology with one store."""

    def __init__(self, client: KafkaClient, group: str, source: str, process: str) -> None:
        self._client = client
        self._group = group
        self._process = process
        self._source = source
        self._id = uuid_to_text(uuid4().bytes)
        self._epoch = 0
        self._tasks: list[Any] = []

    async def join(self) -> None:
        """Send heartbeats until the member has tasks, and confirm these."""
        while not self._tasks:
            response = await self.beat(self._epoch)
            self._epoch = response.member_epoch
            row = StreamsGroupHeartbeatRequest.TaskIds
            self._tasks = [
                row(subtopology_id=each.subtopology_id, partitions=each.partitions)
                for each in response.active_tasks or ()
            ]
        self._epoch = (await self.beat(self._epoch)).member_epoch

    async def beat(self, epoch: int) -> Any:  # noqa: ANN401 - a StreamsGroupHeartbeatResponse
        """Send a heartbeat, and return the response."""
        request_class = StreamsGroupHeartbeatRequest
        subtopology = request_class.Subtopology(
            subtopology_id="0",
            source_topics=[self._source],
            state_changelog_topics=[
                request_class.TopicInfo(
                    name=f"{self._group}-{_STORE}-changelog",
                    topic_configs=[
                        request_class.KeyValue(key=key, value=value)
                        for key, value in _CHANGELOG_CONFIGS.items()
                    ],
                )
            ],
        )
        request = request_class(
            group_id=self._group,
            member_id=self._id,
            member_epoch=epoch,
            rebalance_timeout_ms=300_000,
            process_id=self._process,
            topology=None
            if epoch
            else request_class.Topology(epoch=0, subtopologies=[subtopology]),
            active_tasks=self._tasks,
            standby_tasks=[],
            warmup_tasks=[],
            client_tags=[],
        )
        return await ask_coordinator(
            self._client, self._group, GROUP, request, _VERSIONS, find_error=error_of
        )

    async def commit(self, partition: TopicPartition, offset: int) -> None:
        """Commit an offset as this member."""
        offsets = GroupOffsets(self._client, Metadata(self._client, AdjustableClock()), self._group)
        offsets.membership = Membership(self._id, self._epoch)
        await offsets.commit({partition: OffsetAndEpochs(offset)}, administration_retries())


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
