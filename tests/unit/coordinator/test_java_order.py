"""JavaHashMap: hashes and orders computed by Java 17."""

from __future__ import annotations

from kafkalite.coordinator.java_order import (
    JavaHashMap,
    JavaPriorityQueue,
    in_java_order,
    in_timeline_order,
    int_hash,
    named_partition_hash,
    string_hash,
    topic_partition_hash,
    uuid_hash,
)
from kafkalite.protocol.uuids import uuid_from_text

ONE = uuid_from_text("blUd0trz2Ict5obsDG9X4Q")
TWO = uuid_from_text("qUg8NhiWXurWvG9Q77Wdsg")


def signed(code: int) -> int:
    return code - (1 << 32) if code >> 31 else code


def test_hashes_equal_those_of_java() -> None:
    uuid = uuid_from_text("4H2xI_S-IUlyQdEzlg9pqQ")
    assert signed(uuid_hash(uuid)) == -259_184_400
    assert signed(topic_partition_hash((uuid, 5))) == 555_218_197
    assert signed(string_hash("kafka")) == 101_807_910
    assert signed(int_hash(-7)) == -7


def test_keys_are_ordered_by_bucket() -> None:
    assert in_java_order(["fPH0JsEf6CWq0OnP6U7gOw", "m0"], string_hash) == [
        "m0", "fPH0JsEf6CWq0OnP6U7gOw",
    ]  # fmt: skip
    assert in_java_order([ONE, TWO], uuid_hash) == [ONE, TWO]
    assert in_java_order([17, 16, 2, 0], int_hash) == [16, 0, 17, 2]


def test_a_subset_of_keys_has_the_order_of_the_whole_set() -> None:
    every = [f"topic-{number}" for number in range(100)]
    some = every[::7]
    order = in_java_order(every, string_hash)
    assert in_java_order(some, string_hash, set_size=100) == [key for key in order if key in some]


def test_put_appends_and_compute_if_absent_prepends_in_a_bucket() -> None:
    put: JavaHashMap[int, None] = JavaHashMap(int_hash)
    made: JavaHashMap[int, list[int]] = JavaHashMap(int_hash)
    for number in (0, 16, 32):
        put.put(number, None)
        made.compute_if_absent(number, list)
    assert put.keys() == [0, 16, 32]
    assert made.keys() == [32, 16, 0]
    made.remove(16)
    assert 16 not in made
    assert made.keys() == [32, 0]


def test_a_table_grows_when_it_is_three_quarters_full() -> None:
    put: JavaHashMap[int, None] = JavaHashMap(int_hash)
    made: JavaHashMap[int, None] = JavaHashMap(int_hash)
    for number in (16, *range(11)):
        put.put(number, None)
        made.compute_if_absent(number, lambda: None)
    assert put.keys()[:3] == [16, 0, 1]
    put.put(11, None)
    made.compute_if_absent(11, lambda: None)
    assert put.keys()[-1] == 16
    assert made.keys()[:2] == [0, 16], "one more has to come before this one grows"
    made.compute_if_absent(11, lambda: None)
    assert made.keys()[-1] == 16


def test_a_table_for_many_keys_has_enough_capacity() -> None:
    table: JavaHashMap[int, None] = JavaHashMap(int_hash, expected=100)
    table.put(100, None)
    table.put(16, None)
    assert table.keys() == [16, 100]
    assert (len(table), table.get(7), table[16]) == (2, None, None)


def test_a_table_has_the_requested_capacity() -> None:
    table: JavaHashMap[int, str] = JavaHashMap(int_hash, initial_capacity=2)
    table.put(3, "three")
    table.put(4, "four")
    assert (table.keys(), table.values()) == ([4, 3], ["four", "three"])


def test_equal_keys_of_a_queue_are_in_the_order_of_java() -> None:
    """PriorityQueue with the values 0 to 5 and their keys 0, 1, 2, 0, 1, 2."""
    queue = JavaPriorityQueue(lambda value: value % 3, range(6))
    assert [queue.pop() for _ in range(6)] == [0, 3, 4, 1, 2, 5]
    assert not queue


def test_a_timeline_map_has_the_order_of_kafka() -> None:
    """ConsumerGroupDescribe of Kafka 4.4.0 returned members that joined by number so."""
    members = [f"member-{number}" for number in range(12)]
    expected = (3, 10, 8, 0, 5, 2, 7, 4, 11, 9, 1, 6)
    assert in_timeline_order(members, string_hash) == [members[number] for number in expected]
    assert in_timeline_order([], string_hash) == []
    assert in_timeline_order(["a"], string_hash) == ["a"]


def test_keys_of_one_slot_are_in_reverse_order() -> None:
    assert in_timeline_order(["Aa", "BB"], string_hash) == ["BB", "Aa"]


def test_partitions_have_the_hash_of_their_topic_and_number() -> None:
    """Kafka 4.4.0 listed the groups of five partitions in this order."""
    order = in_java_order(range(5), lambda each: named_partition_hash("__consumer_offsets", each))
    assert order == [0, 3, 4, 1, 2]
