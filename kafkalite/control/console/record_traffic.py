"""The records that requests wrote and returned, as their logged answers say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kafkalite.control.commands.requests import RecordedRequest

PRODUCE, FETCH, SHARE_FETCH = "Produce", "Fetch", "ShareFetch"
APIS: Final = (PRODUCE, FETCH, SHARE_FETCH)
"""The APIs whose requests write or return records."""


class RecordSpan(NamedTuple):
    """Consecutive records of a partition."""

    topic: str
    """The name of the topic, or its id in the versions that have no name."""
    partition: int
    first: int
    last: int

    def has(self, topics: Collection[str], partition: int, offset: int) -> bool:
        """Return whether a record is one of them; `topics` has the name and the id of its topic."""
        is_of_partition = self.topic in topics and self.partition == partition
        return is_of_partition and self.first <= offset <= self.last


def spans_of(request: RecordedRequest) -> Iterator[RecordSpan]:
    """Yield the records that a request wrote, or that its answer returned."""
    read = _READERS.get(request.api)
    if read is not None and isinstance(request.response, dict):
        yield from read(request.request, request.response)


def _produced(request: Mapping[str, Any], response: Mapping[str, Any]) -> Iterator[RecordSpan]:
    counts = {
        (topic, each["index"]): sum(
            batch["recordCount"] for batch in each.get("recordsBatches", ())
        )
        for topic, each in _rows(request, "topicData", "partitionData")
    }
    for topic, each in _rows(response, "responses", "partitionResponses"):
        first = each["baseOffset"]
        if not each["errorCode"] and first >= 0:
            count = counts.get((topic, each["index"]), 0)
            yield RecordSpan(topic, each["index"], first, first + max(1, count) - 1)


def _fetched(request: Mapping[str, Any], response: Mapping[str, Any]) -> Iterator[RecordSpan]:
    starts = {
        (topic, each["partition"]): each["fetchOffset"]
        for topic, each in _rows(request, "topics", "partitions")
    }
    for topic, each in _rows(response, "responses", "partitions"):
        batches, index = each.get("recordsBatches"), each["partitionIndex"]
        if batches:
            # The first batch can begin before the position of the client.
            first = max(batches[0]["baseOffset"], starts.get((topic, index), 0))
            last = batches[-1]["baseOffset"] + batches[-1]["recordCount"] - 1
            if first <= last:
                yield RecordSpan(topic, index, first, last)


def _acquired(request: Mapping[str, Any], response: Mapping[str, Any]) -> Iterator[RecordSpan]:
    del request
    for topic, each in _rows(response, "responses", "partitions"):
        for acquired in each["acquiredRecords"]:
            first, last = acquired["firstOffset"], acquired["lastOffset"]
            yield RecordSpan(topic, each["partitionIndex"], first, last)


_READERS: Final = {PRODUCE: _produced, FETCH: _fetched, SHARE_FETCH: _acquired}


def _rows(
    message: Mapping[str, Any], topics: str, partitions: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each partition in a message with its topic; none of a message without its fields."""
    for topic in message.get(topics) or ():
        name = topic.get("name") or topic.get("topic") or topic.get("topicId") or ""
        for each in topic[partitions]:
            yield name, each
