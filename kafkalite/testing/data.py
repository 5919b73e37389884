"""BrokerData: the data of a broker, for a test without a client library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.config.typed_json import JsonError, quote, read

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from kafkalite.control.command_table import Command
    from kafkalite.control.commands.records import ReadRecords
    from kafkalite.control.commands.reset import ResetAnswer
    from kafkalite.control.commands.topics import TopicStatus
    from kafkalite.control.group_status import GroupStatus, ListedGroup
    from kafkalite.control.topic_records import Isolation, TopicRecord
    from kafkalite.control.transaction_reader import TransactionStatus
    from kafkalite.server.broker import Broker
    from kafkalite.storage.record_format import Headers

T = TypeVar("T")

_MAX_RECORDS = 1_000_000


class BrokerData:
    """The methods of `Broker` for topics, records, groups, transactions and the reset.

    They are usable from any thread but the broker's.
    """

    def _running_broker(self) -> Broker:
        raise NotImplementedError

    def _perform(self, command: Command[T], /) -> T:
        raise NotImplementedError

    def _run_on_loop(self, work: Coroutine[None, None, T]) -> T:
        raise NotImplementedError

    def create_topic(
        self, name: str, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> TopicStatus:
        """Create a topic, and return it with its partitions.

        The number of partitions is by default that of `num.partitions`. Raises ValueError, with
        Kafka's error, if the broker refuses the topic.
        """
        from kafkalite.control.commands.topics import CreateTopic  # noqa: PLC0415 - rarely used

        if isinstance(config, Mapping):
            config = dict(config)
        given = {"name": name, "partitions": partitions, "config": config}
        return self._perform(_command(CreateTopic, given, "a topic"))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records; raises ValueError for an unknown topic."""
        from kafkalite.control.commands.topics import DeleteTopic  # noqa: PLC0415 - as above

        self._perform(DeleteTopic(name))

    def set_quotas(
        self,
        *,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        **quotas: float,
    ) -> None:
        """Set quotas, such as `producer_byte_rate`, of a user, a client id, both, or an address.

        Raises ValueError, with Kafka's error, for an unknown quota.
        """
        from kafkalite.control.commands.quotas import SetQuotas  # noqa: PLC0415 - as above

        given = {"user": user, "client_id": client_id, "ip": ip, "quotas": quotas}
        self._perform(_command(SetQuotas, given, "quotas"))

    def topic(self, name: str) -> TopicStatus:
        """Return a topic with its partitions and their offsets; raises ValueError if unknown."""
        from kafkalite.control.commands.topics import ShowTopic  # noqa: PLC0415 - as above

        return self._perform(ShowTopic(name))

    def topics(self) -> list[str]:
        """Return the names of all topics, without Kafka's internal ones."""
        from kafkalite.control.commands.topics import ListTopics  # noqa: PLC0415 - as above

        return [each.name for each in self._perform(ListTopics()).topics if not each.internal]

    def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> int:
        """Write a record to a topic, and return its offset.

        Without `partition`, it is written to the partition that Java's producer selects for the
        key, and to partition 0 without a key. `timestamp` is in milliseconds since the Unix epoch,
        by default the broker's time. Raises ValueError, with Kafka's error, if it is refused.
        """
        from kafkalite.control.commands.records import ProduceRecords  # noqa: PLC0415 - as above
        from kafkalite.control.topic_records import produce  # noqa: PLC0415 - as above

        broker = self._running_broker()
        fields = {} if timestamp is None else {"timestamp_ms": timestamp}
        given = {"topic": topic, "partition": partition, "records": [fields]}
        command: ProduceRecords = _command(ProduceRecords, given, "a record")
        record = command.records[0].record(broker.clock.now_ms())
        record = record._replace(
            key=_bytes_of("key", key),
            value=_bytes_of("value", value),
            headers=_headers_of(headers),
        )
        (position,) = self._run_on_loop(produce(broker, topic, [record], partition))
        return position.offset

    def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        start: int = 0,
        isolation: Isolation = "read_committed",
        limit: int = 1_000_000,
    ) -> list[TopicRecord]:
        """Return the records of a topic, or of one partition, by partition and offset.

        `start` is the first offset in each partition. With "read_uncommitted", records of open and
        aborted transactions are included. Raises ValueError for an unknown topic.
        """
        return self._found(topic, partition, start, isolation, limit, count=0, wait_ms=0)

    def wait_for_records(
        self,
        topic: str,
        count: int = 1,
        *,
        where: Callable[[TopicRecord], bool] | None = None,
        timeout: float = 5.0,
        partition: int | None = None,
        start: int = 0,
        isolation: Isolation = "read_committed",
    ) -> list[TopicRecord]:
        """Return the records of a topic when there are `count`, of those that `where` accepts.

        Raises AssertionError after `timeout` seconds, with the number of records that were found.
        """
        from time import monotonic  # noqa: PLC0415 - the test waits in real time

        from kafkalite.control.waiting import milliseconds_of  # noqa: PLC0415 - rarely used

        if where is not None and not callable(where):
            raise JsonError(f"where must be a function of a record, not {quote(where)}")
        deadline = monotonic() + milliseconds_of("timeout", timeout) / 1000
        expected = count
        while True:
            remaining = max(0.0, deadline - monotonic())
            records = self._found(
                topic,
                partition,
                start,
                isolation,
                _MAX_RECORDS,
                count=expected,
                wait_ms=round(remaining * 1000),
            )
            found = records if where is None else [each for each in records if where(each)]
            if len(found) >= count:
                return found
            if monotonic() >= deadline:
                accepted = "" if where is None else f", {len(found)} of which `where` accepts"
                raise AssertionError(
                    f"expected {count} records in topic {topic!r} within {timeout:g} s; "
                    f"it has {len(records)}{accepted}"
                )
            expected = len(records) + 1

    def groups(self) -> list[ListedGroup]:
        """Return the groups of all types by id, with their states and numbers of members."""
        from kafkalite.control.commands.groups import ListGroups  # noqa: PLC0415 - as above

        return list(self._perform(ListGroups()).groups)

    def group(self, group_id: str) -> GroupStatus:
        """Return a group with its members, its committed offsets and its lag.

        Raises ValueError, with similar names, for an unknown group.
        """
        from kafkalite.control.commands.groups import ShowGroup  # noqa: PLC0415 - as above

        return self._perform(ShowGroup(group_id))

    def delete_group(self, group_id: str) -> None:
        """Delete a group with its offsets; raises ValueError for one that has members."""
        from kafkalite.control.commands.groups import DeleteGroup  # noqa: PLC0415 - as above

        self._perform(DeleteGroup(group_id))

    def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group by topic and partition."""
        offsets = self.group(group_id).offsets
        return {
            (each.topic, each.partition): each.offset for each in offsets if each.offset is not None
        }

    def lag(self, group_id: str) -> dict[tuple[str, int], int | None]:
        """Return the lag of a group by topic and partition, as Kafka's tools count it.

        The lag of an assigned partition without a committed offset is None.
        """
        return {(each.topic, each.partition): each.lag for each in self.group(group_id).offsets}

    def wait_for_group(
        self,
        group_id: str,
        *,
        state: str | None = None,
        members: int | None = None,
        timeout: float = 5.0,
    ) -> GroupStatus:
        """Return a group when it has this state and this number of members.

        A group that does not exist has the state "Dead". Without `state` and `members`, waits until
        the group exists. Raises AssertionError after `timeout` seconds, with the group and its
        latest history.
        """
        from kafkalite.control.commands.groups import ShowGroup  # noqa: PLC0415 - as above
        from kafkalite.control.waiting import milliseconds_of  # noqa: PLC0415 - as above

        given = {
            "group": group_id,
            "state": state,
            "members": members,
            "wait_ms": milliseconds_of("timeout", timeout),
        }
        command: ShowGroup = _command(ShowGroup, given, "a group")
        return self._run_on_loop(command.expected(self._running_broker()))

    def expect_commit(
        self,
        group_id: str,
        topic: str,
        partition: int = 0,
        offset: int | None = None,
        *,
        within: float = 5.0,
    ) -> int:
        """Assert that a group commits this offset, or any, and return the committed offset.

        Waits up to `within` seconds. Raises AssertionError with the committed offset and the latest
        history of the group, and ValueError for an unknown topic or partition.
        """
        from kafkalite.control.commands.commits import ExpectCommit  # noqa: PLC0415 - as above
        from kafkalite.control.waiting import milliseconds_of  # noqa: PLC0415 - as above

        given = {
            "group": group_id,
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "within_ms": milliseconds_of("within", within),
        }
        result = self._perform(_command(ExpectCommit, given, "an expected commit"))
        __tracebackhide__ = True  # pytest shows the line of the test
        if result.offset is None or not result.met:
            raise AssertionError(result.text)
        return result.offset

    def transactions(self) -> list[TransactionStatus]:
        """Return every transactional id, sorted, with its current or last transaction.

        Each has its `state`, such as TransactionState.ONGOING, the `partitions` of the open
        transaction, its `age_ms` and `timeout_ms`, the `producer_id`, the `producer_epoch` and the
        client of the producer.
        """
        from kafkalite.control.transaction_reader import list_transactions  # noqa: PLC0415 - as above

        return self._run_on_loop(list_transactions(self._running_broker()))

    def reset(self, *, topics: str | None = None, groups: str | None = None) -> ResetAnswer:
        """Reset the broker to the state after its start, and return what was deleted.

        Clients stay connected: members of groups get UNKNOWN_MEMBER_ID and join again, and
        transactional producers must be initialized again. Topics of the start are created again,
        empty. With a pattern of `topics` or `groups`, such as "orders-*", only those are deleted.
        Raises ValueError if a node that is stopped cannot be started.
        """
        from kafkalite.control.commands.reset import ResetBroker  # noqa: PLC0415 - as above

        return self._perform(ResetBroker(topics, groups))

    def _found(  # noqa: PLR0917 - as above
        self,
        topic: str,
        partition: int | None,
        start: int,
        isolation: str,
        limit: int,
        count: int,
        wait_ms: int,
    ) -> list[TopicRecord]:
        from kafkalite.control.commands.records import ReadRecords  # noqa: PLC0415 - as above

        given = {
            "topic": topic,
            "partition": partition,
            "start": start,
            "isolation": isolation,
            "limit": limit,
            "count": count,
            "wait_ms": wait_ms,
        }
        command: ReadRecords = _command(ReadRecords, given, "records")
        return self._run_on_loop(command.found(self._running_broker()))


def _command(kind: type[T], given: Mapping[str, Any], title: str) -> T:
    """Return a command with these fields, of which None is like a missing one."""
    return read(kind, {name: value for name, value in given.items() if value is not None}, title)


def _headers_of(headers: Any) -> Headers:  # noqa: ANN401 - the argument may have a wrong type
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        found = [(name, content) for name, content in pairs]
    except (TypeError, ValueError):
        raise JsonError(
            f"headers must be a mapping, or pairs of name and value, not {quote(headers)}"
        ) from None
    for name, _ in found:
        if not isinstance(name, str):
            raise JsonError(f"the name of a header must be text, not {quote(name)}")
    return tuple((name, _bytes_of("header", content)) for name, content in found)


def _bytes_of(name: str, content: bytes | str | None) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    if not isinstance(content, str):
        kind = type(content).__name__
        raise TypeError(f"the {name} of a record must be bytes, text or None, not {kind}")
    return content.encode()
