"""Transactions from their first partition to their end: every state, every refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from tests.conformance.setup import create_topic, ready_group
from tests.conformance.transacting import (
    ABORT,
    COMMIT,
    NEW,
    OLD,
    OLDEST,
    Producer,
    Protocol,
    Transactor,
    add,
    add_offsets,
    add_together,
    added,
    begun,
    completed,
    describe,
    end,
    in_both_protocols,
    initialise,
    latest,
    markers,
    reached,
    read,
    ready_transactions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.world import World

_ADD_VERSIONS = range(4)
_TOGETHER_VERSIONS = (4, 5)
_OFFSETS_VERSIONS = range(5)
_END_VERSIONS = range(6)
_FENCED_BY = 1000
"""A coordinator's epoch that no coordinator has reached."""


def a_transaction_is_committed(world: World, protocol: Protocol) -> None:
    create_topic(world, world.name, partitions=2)
    producer = begun(world, protocol)
    producer.begin(0, 1)
    producer.write(b"a", b"b", sequence=1)
    world.ask(describe(world.name), 0)
    producer.commit()
    for partition in (0, 1):
        world.ask(read(world.name, partition=partition), 11)
    producer.begin(1)
    world.ask(latest(world.name, 0, 1), 7)
    producer.commit()
    world.ask(latest(world.name, 0, 1), 7)


def a_transaction_is_aborted(world: World, protocol: Protocol) -> None:
    create_topic(world, world.name, partitions=2)
    producer = begun(world, protocol)
    for is_commit in (ABORT, COMMIT, ABORT, ABORT):
        producer.begin(1, 0)
        producer.end(is_commit=is_commit)
    for partition in (0, 1):
        world.ask(read(world.name, partition=partition), 11)


def the_oldest_clients_have_transactions_too(world: World) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    producer = begun(world, OLDEST)
    for is_commit in (COMMIT, ABORT):
        producer.begin()
        producer.add_offsets(world.name)
        producer.commit_offsets(world.name)
        producer.end(is_commit=is_commit)
    world.ask(read(world.name), 4)


def partitions_are_added_in_every_version(world: World) -> None:
    create_topic(world, world.name, partitions=4)
    for version in _ADD_VERSIONS:
        producer = begun(world, OLD._replace(add=version), f"{world.name}-{version}")
        for partitions in ((0,), (0,), (1, 0), (2, 3), (1, 1)):
            producer.add(*partitions)
            world.ask(describe(producer.transactional_id), 0)
        empty = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer.producer.producer_id,
            v3_and_below_producer_epoch=producer.producer.producer_epoch,
        )
        world.ask(empty, version)
        producer.commit()
        world.ask(empty, version)
        world.ask(describe(producer.transactional_id), 0)


def nothing_is_added_when_a_partition_is_unknown(world: World) -> None:
    create_topic(world, world.name, partitions=2)
    missing = f"{world.name}-missing"
    for version in _ADD_VERSIONS:
        name = f"{world.name}-{version}"
        producer = begun(world, OLD, name).producer
        for partitions in (
            {missing: [0]},
            {missing: [0, 3], world.name: [0, 1]},
            {world.name: [0, 2]},
            {world.name: [-1]},
            {"in valid": [0], world.name: [1]},
            {"": [0]},
        ):
            world.ask(add(name, producer, partitions), version)
            world.ask(describe(name), 0)


def internal_topics_are_not_for_clients(world: World) -> None:
    create_topic(world, world.name)
    ready_group(world, world.name)
    producer = begun(world, OLD)
    for topic in ("__consumer_offsets", "__transaction_state"):
        for version in _ADD_VERSIONS:
            for partitions in ({topic: [0]}, {topic: [0], world.name: [0]}, {topic: [99]}):
                world.ask(add(world.name, producer.producer, partitions), version)
    for version in _TOGETHER_VERSIONS:
        named = {"__consumer_offsets": [0], world.name: [0]}
        world.ask(add_together(added(world.name, producer.producer, named)), version)
        world.ask(describe(world.name), 0)
    producer.abort()


def _strangers(name: str, producer: Producer) -> Iterator[tuple[str, Producer]]:
    """Yield claims that are all wrong, but for the last."""
    number, epoch = producer
    yield f"{name}-unknown", producer
    yield "", producer
    yield name, Producer(number + 1_000_000, epoch)
    yield name, Producer(-1, epoch)
    yield name, Producer(number, epoch - 1)
    yield name, Producer(number, epoch + 1)
    yield name, Producer(number, -1)
    yield name, Producer(number, 32_767)
    yield name, Producer(number + 1_000_000, epoch - 1)
    yield name, producer


def who_adds_partitions_is_checked(world: World) -> None:
    create_topic(world, world.name)
    for version in _ADD_VERSIONS:
        name = f"{world.name}-{version}"
        producer = begun(world, OLD, name)
        producer.init()
        for _ in ("empty", "ongoing"):
            for transactional_id, claimed in _strangers(name, producer.producer):
                world.ask(add(transactional_id, claimed, {world.name: [0]}), version)
        producer.commit()
        for transactional_id, claimed in _strangers(name, producer.producer):
            world.ask(add(transactional_id, claimed, {world.name: [0]}), version)


def who_adds_offsets_is_checked(world: World) -> None:
    ready_group(world, world.name)
    for version in _OFFSETS_VERSIONS:
        name = f"{world.name}-{version}"
        producer = begun(world, OLD, name)
        producer.init()
        for _ in ("empty", "ongoing"):
            for transactional_id, claimed in _strangers(name, producer.producer):
                world.ask(add_offsets(transactional_id, claimed, world.name), version)
        for group in ("", f"{world.name}-another", world.name):
            world.ask(add_offsets(name, producer.producer, group), version)
        world.ask(describe(name), 0)
        producer.commit()


def brokers_add_for_many_at_once(world: World) -> None:
    create_topic(world, world.name, partitions=3)
    missing = f"{world.name}-missing"
    for version in _TOGETHER_VERSIONS:
        names = [f"{world.name}-{version}-{letter}" for letter in "abcd"]
        producers = [begun(world, NEW, name).producer for name in names]
        claims = zip(names, producers, strict=True)
        rows = [added(name, producer, {world.name: [0, 1]}) for name, producer in claims]
        rows[1].producer_epoch += 1
        rows[2].topics.append(added("", producers[2], {missing: [0]}).topics[0])
        rows[3].verify_only = True
        world.ask(add_together(*rows), version)
        world.ask(describe(*names), 0)
        world.ask(add_together(*rows), version)
        for name, producer in zip(names, producers, strict=True):
            again = (added(name, producer, {world.name: [2]}),)
            world.ask(add_together(*again, *again), version)
        world.ask(describe(*names), 0)
        none = added(names[0], producers[0], {})
        world.ask(add_together(none), version)


def who_adds_for_others_is_checked(world: World) -> None:
    create_topic(world, world.name, partitions=2)
    for version in _TOGETHER_VERSIONS:
        name = f"{world.name}-{version}"
        producer = begun(world, NEW, name)
        producer.init()
        for verify_only in (True, False, True):
            for transactional_id, claimed in _strangers(name, producer.producer):
                one = added(transactional_id, claimed, {world.name: [0]}, verify_only=verify_only)
                world.ask(add_together(one), version)
        world.ask(describe(name), 0)


def partitions_are_verified(world: World, protocol: Protocol) -> None:
    create_topic(world, world.name, partitions=3)
    producer = begun(world, protocol)

    def verify() -> None:
        for version in _TOGETHER_VERSIONS:
            for partitions in ([0], [1, 0], [2]):
                one = added(
                    world.name, producer.producer, {world.name: partitions}, verify_only=True
                )
                world.ask(add_together(one), version)
        named = {world.name: [0], f"{world.name}-missing": [0]}
        one = added(world.name, producer.producer, named, verify_only=True)
        world.ask(add_together(one), 5)

    verify()
    producer.begin(0, 1)
    verify()
    producer.commit()
    verify()
    producer.begin()
    producer.abort()
    verify()
    world.ask(describe(world.name), 0)


def ends_of_the_old_protocol_are_judged_by_state(world: World) -> None:
    create_topic(world, world.name)
    for version in range(5):
        producer = begun(world, OLD._replace(end=version), f"{world.name}-{version}")
        for is_commit in (COMMIT, ABORT):
            producer.end(is_commit=is_commit)
        for last in (COMMIT, ABORT):
            producer.begin()
            for is_commit in (last, COMMIT, ABORT, last):
                producer.end(is_commit=is_commit)
        producer.init()
        for is_commit in (COMMIT, ABORT):
            producer.end(is_commit=is_commit)


def ends_of_the_new_protocol_are_judged_by_state(world: World) -> None:
    """Each state meets who is current, and who repeats what bumped the epoch."""
    create_topic(world, world.name)
    for is_commit in (COMMIT, ABORT):
        for step in (0, -1, 1):
            producer = begun(world, NEW, f"{world.name}-{is_commit:d}-{step + 1}")
            producer.init()
            # Empty, then open, then complete in both ways.
            producer.end(is_commit=is_commit, producer=producer.at(step))
            producer.init()
            for last in (COMMIT, ABORT):
                producer.begin()
                producer.end(is_commit=is_commit, producer=producer.at(step))
                if step:
                    producer.end(is_commit=last)
                producer.end(is_commit=is_commit, producer=producer.at(step))
                producer.end(is_commit=is_commit, producer=producer.at(step))
                producer.init()


def who_ends_a_transaction_is_checked(world: World) -> None:
    create_topic(world, world.name)
    for version in _END_VERSIONS:
        name = f"{world.name}-{version}"
        producer = begun(world, OLD, name)
        producer.init()
        for stage in ("empty", "ongoing", "complete"):
            if stage == "ongoing":
                producer.begin()
            for transactional_id, claimed in list(_strangers(name, producer.producer))[:-1]:
                for is_commit in (COMMIT, ABORT):
                    world.ask(end(transactional_id, claimed, is_commit=is_commit), version)
            world.ask(describe(name), 0)
            if stage == "ongoing":
                speaker = producer.speaking(end=version)
                speaker.commit()
                producer.producer = speaker.producer


def protocols_may_be_mixed(world: World) -> None:
    """End in the new protocol what the old one began, and the other way round."""
    create_topic(world, world.name)
    for is_commit in (COMMIT, ABORT):
        producer = begun(world, OLD, f"{world.name}-{is_commit:d}")
        for first, last in ((OLD, 5), (NEW, 4), (OLD, 4), (NEW, 5), (OLD, 5)):
            speaker = Transactor(
                world, producer.transactional_id, first._replace(end=last), producer.producer
            )
            speaker.begin()
            speaker.end(is_commit=is_commit)
            speaker.end(is_commit=is_commit)
            speaker.init(speaker.producer)
            producer.producer = speaker.producer
    for isolation in (0, 1):
        world.ask(read(world.name, isolation=isolation), 11)


def _stick(world: World, producer: Transactor, *, is_commit: bool) -> Producer:
    """End a transaction so that it stays prepared: its partition has heard of a later coordinator.

    Gives the producer that an answer named, or the one that asked.
    """
    producer.begin()
    foreign = Producer(producer.producer.producer_id + 5_000_000, 0)
    world.ask(markers(foreign, {world.name: [0]}), 1)
    own = markers(producer.newer, {world.name: [0]}, coordinator_epoch=_FENCED_BY)
    world.ask(own, 1)
    request = end(producer.transactional_id, producer.producer, is_commit=is_commit)
    answer = world.ask(request, producer.protocol.end)
    reached(world, producer.transactional_id, "PrepareCommit", "PrepareAbort")
    return Producer(answer.producer_id, answer.producer_epoch)


def nothing_else_happens_while_an_end_is_prepared(world: World, protocol: Protocol) -> None:
    """Meet a transaction that stays prepared, because its marker was refused."""
    create_topic(world, world.name, partitions=2)
    group = f"{world.name}-group"
    ready_group(world, group)
    for is_commit in (COMMIT, ABORT):
        name = f"{world.name}-{is_commit:d}"
        producer = begun(world, protocol, name)
        producer.init()
        _stick(world, producer, is_commit=is_commit)
        for step in (-1, 0, 1, 2):
            claimed = producer.at(step)
            for version in _ADD_VERSIONS:
                world.ask(add(name, claimed, {world.name: [1]}), version)
            for verify_only in (True, False):
                one = added(name, claimed, {world.name: [0]}, verify_only=verify_only)
                world.ask(add_together(one), 5)
            world.ask(add_offsets(name, claimed, group), 4)
            for version in _END_VERSIONS:
                for wanted in (COMMIT, ABORT):
                    world.ask(end(name, claimed, is_commit=wanted), version)
            for version in (10, 11):
                producer.speaking(produce=version).write(partition=1, producer=claimed)
            for version in (3, 4):
                producer.speaking(commit_offsets=version).commit_offsets(group, producer=claimed)
            world.ask(initialise(name, claimed), 5)
        # For these a real broker asks again and again, a tenth of a second long.
        producer.speaking(produce=12).write(partition=1)
        producer.speaking(commit_offsets=5).commit_offsets(group)
        world.ask(initialise(name), 5)
        world.ask(describe(name), 0)
        world.ask(read(world.name), 11)


def a_topic_is_deleted_within_a_transaction(world: World, protocol: Protocol) -> None:
    kept = f"{world.name}-kept"
    create_topic(world, kept)
    for is_commit in (COMMIT, ABORT):
        gone = f"{world.name}-gone-{is_commit:d}"
        create_topic(world, gone, partitions=2)
        producer = begun(world, protocol, f"{world.name}-{is_commit:d}")
        producer.begin(topic=gone)
        producer.begin(topic=kept)
        topics = [DeleteTopicsRequest.DeleteTopicState(name=gone)]
        world.ask(DeleteTopicsRequest(topics=topics, topic_names=[gone], timeout_ms=10_000), 5)
        asked = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=gone)],
            allow_auto_topic_creation=False,
        )
        world.settle(asked, 9, lambda found: found.topics[0].error_code != 0)
        producer.add(1, topic=gone)
        world.ask(describe(producer.transactional_id), 0)
        producer.end(is_commit=is_commit)
        producer.begin(topic=kept)
        producer.end(is_commit=is_commit)
    world.ask(read(kept), 11)


def a_topic_is_made_anew_within_a_transaction(world: World, protocol: Protocol) -> None:
    """Let the marker find a log that knows nothing of the transaction."""
    create_topic(world, world.name)
    producer = begun(world, protocol)
    producer.begin()
    world.ask(DeleteTopicsRequest(topic_names=[world.name], timeout_ms=10_000), 5)
    asked = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=world.name)],
        allow_auto_topic_creation=False,
    )
    world.settle(asked, 9, lambda found: found.topics[0].error_code != 0)
    create_topic(world, f"{world.name}")
    producer.abort()
    world.ask(read(world.name, isolation=0), 11)
    producer.begin()
    producer.commit()
    world.ask(read(world.name), 11)


def transactions_may_be_empty(world: World, protocol: Protocol) -> None:
    """Partitions that were added and never written to get their markers all the same."""
    create_topic(world, world.name)
    producer = begun(world, protocol)
    for is_commit in (COMMIT, ABORT):
        producer.add()
        producer.end(is_commit=is_commit)
    producer.end(is_commit=ABORT)
    producer.end(is_commit=COMMIT)
    world.ask(read(world.name, isolation=0), 11)
    ready_transactions(world, f"{world.name}-never")
    for version in _END_VERSIONS:
        world.ask(end(f"{world.name}-never", producer.producer, is_commit=ABORT), version)
    completed(world, world.name)


SCENARIOS = (
    *in_both_protocols(a_transaction_is_committed),
    *in_both_protocols(a_transaction_is_aborted),
    the_oldest_clients_have_transactions_too,
    partitions_are_added_in_every_version,
    nothing_is_added_when_a_partition_is_unknown,
    internal_topics_are_not_for_clients,
    who_adds_partitions_is_checked,
    who_adds_offsets_is_checked,
    brokers_add_for_many_at_once,
    who_adds_for_others_is_checked,
    *in_both_protocols(partitions_are_verified),
    ends_of_the_old_protocol_are_judged_by_state,
    ends_of_the_new_protocol_are_judged_by_state,
    who_ends_a_transaction_is_checked,
    protocols_may_be_mixed,
    *in_both_protocols(nothing_else_happens_while_an_end_is_prepared),
    *in_both_protocols(a_topic_is_deleted_within_a_transaction),
    *in_both_protocols(a_topic_is_made_anew_within_a_transaction),
    *in_both_protocols(transactions_may_be_empty),
)
