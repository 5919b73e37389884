"""The directory of a new replica: preferred, with the fewest replicas, not cordoned."""

from __future__ import annotations

from kafkalite.cluster.directory_choice import DirectoryChoice, in_order_of_kafka
from kafkalite.metadata.image import PartitionImage, TopicImage


def test_the_directory_with_the_fewest_replicas_is_next() -> None:
    choice = DirectoryChoice(("/a", "/b", "/c"), ())
    choice.count(("/a", "/b", "/b"))
    assert [choice.next() for _ in range(5)] == ["/c", "/a", "/c", "/a", "/b"]


def test_a_preferred_directory_is_used_even_if_it_is_cordoned() -> None:
    choice = DirectoryChoice(("/a", "/b"), ("/b",))
    assert [choice.next(), choice.next("/b"), choice.next()] == ["/a", "/b", "/a"]


def test_the_first_directory_is_used_if_all_are_cordoned() -> None:
    choice = DirectoryChoice(("/a", "/b"), ("/a", "/b"))
    assert [choice.next(), choice.next()] == ["/a", "/a"]


def test_replicas_that_the_node_leads_are_first_in_the_order_of_java() -> None:
    topic = TopicImage(
        # Kafka was recorded to create the partitions of a topic with this name in this order.
        name="new-replicas-are-in-the-directory-with-the-fewest-one",
        topic_id=bytes(16),
        partitions=tuple(
            PartitionImage(index, 2 if index == 1 else 1, 0, 0, (1, 2), (1, 2))
            for index in range(5)
        ),
    )
    replicas = [(topic, each) for each in topic.partitions]
    ordered = in_order_of_kafka(replicas, 1)
    assert [partition.index for _, partition in ordered] == [0, 4, 2, 3, 1]
