"""Two producers race on a complete broker, which is stopped, killed, and has a full disk at times.

The races on a model of partitions test the coordinator. This tests all that a client can reach by
requests: partitions, groups, markers and readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing.files import FaultyFiles
from kafkalite.transactions.state import ProducerIdAndEpoch
from tests.effort import examples
from tests.properties.transaction_broker import (
    NEW,
    OLD,
    PARTITIONS,
    Broker,
    Versions,
    copy_disk,
    prepare_disk,
)

if TYPE_CHECKING:
    from collections.abc import Callable

DISKS = {versions: prepare_disk(versions) for versions in (OLD, NEW)}


class Step(NamedTuple):
    """One event with its parameters."""

    event: str
    client_index: int
    choice: bool
    """A random choice of the step: commit or abort, keep the id or not, the first partition."""


EVENT_WEIGHTS = {
    "init": 1, "write": 6, "write all": 8, "offset": 3, "end": 10, "a second": 2, "a timeout": 1,
    "stop": 1, "kill": 2, "full disk": 2,
}  # fmt: skip
"""Event → relative frequency."""
END_ACTIONS = st.lists(
    st.builds(
        Step,
        event=st.sampled_from(
            [event for event, weight in EVENT_WEIGHTS.items() for _ in range(weight)]
        ),
        client_index=st.sampled_from([0, 0, 0, 1]),
        choice=st.booleans(),
    ),
    min_size=15,
    max_size=40,
)


class Disk(FaultyFiles):
    """A disk that can be full for a number of steps."""

    def refuse_next(self, steps: int) -> None:
        self._fail_at, self._refusals, self._crash = self.steps, steps, False


class ClientTransaction:
    """A transaction: its number, its records, and the acknowledged end."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written = dict.fromkeys(PARTITIONS, 0)
        self.has_offset = False
        self.requested_commit: bool | None = None
        self.acknowledged_commit: bool | None = None


class Client:
    """The client of a producer."""

    def __init__(self) -> None:
        self.producer: ProducerIdAndEpoch | None = None
        self.client_transaction: ClientTransaction | None = None


class Scenario:
    """A broker, two clients with one transactional id, and a reader of committed records."""

    def __init__(self, versions: Versions) -> None:
        self.versions = versions
        self.disk = Disk(copy_disk(DISKS[versions]))
        self.broker = Broker(self.disk, versions)
        self.clients = (Client(), Client())
        self.client_transactions: list[ClientTransaction] = []
        self.stable = dict.fromkeys(PARTITIONS, 0)
        self.visible: dict[int, list[int]] = {index: [] for index in PARTITIONS}

    # Actions of clients

    def init(self, client: Client, *, keeps_id: bool) -> None:
        answer = self.broker.ask_init(client.producer if keeps_id else None)
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            return
        client.client_transaction = None
        client.producer = None
        if answer.error_code == 0:
            client.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def transaction_of(self, client: Client) -> ClientTransaction:
        if client.client_transaction is None:
            client.client_transaction = ClientTransaction(len(self.client_transactions))
            self.client_transactions.append(client.client_transaction)
        return client.client_transaction

    def write(self, client: Client, *indexes: int) -> None:
        for index in indexes:
            client_transaction = self.transaction_of(client)
            producer = client.producer
            if producer is None or client_transaction.requested_commit is not None:
                return
            code = self.broker.ask_add(producer, index) if self.versions.adds else 0
            if code == 0:
                code = self.broker.ask_produce(producer, index, b"%d" % client_transaction.number)
            client_transaction.written[index] += code == 0
            self.handle_error(client, code)

    def commit_offset(self, client: Client) -> None:
        client_transaction = self.transaction_of(client)
        if client.producer is None or client_transaction.requested_commit is not None:
            return
        code = self.broker.ask_add_offsets(client.producer) if self.versions.adds else 0
        if code == 0:
            code = self.broker.ask_commit_offset(client.producer, client_transaction.number)
        client_transaction.has_offset |= code == 0
        self.handle_error(client, code)

    def end(self, client: Client, *, is_commit: bool) -> None:
        client_transaction = self.transaction_of(client)
        if client_transaction.requested_commit is None and not (
            client_transaction.has_offset or any(client_transaction.written.values())
        ):
            self.write(client, *PARTITIONS)
        if client.producer is None or client.client_transaction is not client_transaction:
            return
        # A client repeats the same end until it is acknowledged.
        client_transaction.requested_commit = (
            is_commit
            if client_transaction.requested_commit is None
            else client_transaction.requested_commit
        )
        answer = self.broker.ask_end(client.producer, is_commit=client_transaction.requested_commit)
        if answer.error_code == 0:
            client_transaction.acknowledged_commit = client_transaction.requested_commit
            client.producer = self.broker.successor(client.producer, answer)
            client.client_transaction = None
        elif answer.error_code != ErrorCode.NOT_COORDINATOR:
            self.handle_error(client, answer.error_code)

    def handle_error(self, client: Client, code: int) -> None:
        """Reset the client after an error, unless the error is retriable."""
        if code not in {0, ErrorCode.CONCURRENT_TRANSACTIONS}:
            client.producer = client.client_transaction = None

    # Failures of the broker

    def restart(self, *, is_killed: bool) -> None:
        """Start with the files on the disk, at the current time."""
        now_ms = self.broker.clock.now_ms()
        if not is_killed:
            self.broker.end()
        sequences = self.broker.sequences
        self.disk = Disk(copy_disk(self.disk.disk))
        self.broker = Broker(self.disk, self.versions)
        self.broker.sequences = sequences
        self.broker.clock.advance(now_ms - self.broker.clock.now_ms())

    def fill_disk(self, client: Client, *, is_commit: bool) -> None:
        """Fill the disk while a transaction is ended."""
        self.disk.refuse_next(3 if is_commit else 1)
        self.end(client, is_commit=is_commit)
        self.disk.refuse_next(0)

    # Invariants

    def check_visible_records(self) -> None:
        """Read committed records, and check that no earlier ones are missing."""
        for index in PARTITIONS:
            answer = self.broker.fetch(index)
            assert answer.last_stable_offset >= self.stable[index], "the stable offset moved back"
            self.stable[index] = answer.last_stable_offset
            visible = self.broker.committed(index)
            before = self.visible[index]
            assert visible[: len(before)] == before, "what was read once is gone"
            self.visible[index] = visible
            for number in set(visible):
                assert self.client_transactions[number].requested_commit is True, (
                    "its commit was not requested"
                )
                assert self.client_transactions[number].acknowledged_commit is not False, (
                    "its abort was acknowledged"
                )

    def apply(self, step: Step) -> None:
        client = self.clients[step.client_index]
        order = PARTITIONS if step.choice else PARTITIONS[::-1]
        if client.producer is None:
            self.init(client, keeps_id=False)
        handlers: dict[str, Callable[[], None]] = {
            "init": lambda: self.init(client, keeps_id=step.choice),
            "write": lambda: self.write(client, order[0]),
            "write all": lambda: self.write(client, *order),
            "offset": lambda: self.commit_offset(client),
            "end": lambda: self.end(client, is_commit=step.choice),
            "a second": lambda: self.broker.clock.advance(1_000),
            "a timeout": lambda: self.broker.clock.advance(75_000),
            "stop": lambda: self.restart(is_killed=False),
            "kill": lambda: self.restart(is_killed=True),
            "full disk": lambda: self.fill_disk(client, is_commit=step.choice),
        }
        handlers[step.event]()
        self.check_visible_records()

    def finish(self) -> None:
        """Complete decided transactions, and let open ones time out."""
        self.restart(is_killed=True)
        self.broker.clock.advance(120_000)
        self.check_visible_records()
        assert all(self.broker.is_stable(index) for index in PARTITIONS)
        committed = {number for visible in self.visible.values() for number in visible}
        for client_transaction in self.client_transactions:
            is_committed = (
                client_transaction.number in committed
                or client_transaction.acknowledged_commit is True
            )
            for index in PARTITIONS:
                count = self.visible[index].count(client_transaction.number)
                assert count == (client_transaction.written[index] if is_committed else 0), (
                    "half a transaction"
                )
        offsets = [
            client_transaction.number
            for client_transaction in self.client_transactions
            if client_transaction.has_offset
            and (
                client_transaction.number in committed
                or client_transaction.acknowledged_commit is True
            )
        ]
        unacknowledged = {
            client_transaction.number
            for client_transaction in self.client_transactions
            if client_transaction.has_offset
            and client_transaction.requested_commit
            and client_transaction.acknowledged_commit is None
            and not any(client_transaction.written.values())
        }
        assert self.broker.offset() in {max(offsets, default=-1), *unacknowledged}


@given(versions=st.sampled_from([OLD, NEW]), steps=END_ACTIONS)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_readers_see_complete_transactions_despite_races_and_failures(
    versions: Versions, steps: list[Step]
) -> None:
    scenario = Scenario(versions)
    for step in steps:
        scenario.apply(step)
    scenario.finish()
