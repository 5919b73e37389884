"""Unit tests of summaries of requests and responses."""

from __future__ import annotations

from kafkalite.capture.reading.summary import (
    assigned,
    errors,
    groups,
    named_topics,
    summary,
    topics,
)
from kafkalite.protocol import codec
from tests.captures import traffic


def test_summary_has_groups_topics_and_members() -> None:
    assert summary(traffic.commit_request("g", 7, topics=5)) == (
        "group=g generation=3 member=member-1 topics=topic-0(1),topic-1(1),topic-2(1),+2"
    )
    assert summary(traffic.produce_request(1, b"")) == "topics=topic-0(1)"
    found = codec.request_class(10)(key="", coordinator_keys=["a", "b"])
    assert summary(found) == "keys=a,b"
    fetch = codec.request_class(1)
    topic = fetch.FetchTopic(topic_id=bytes(15) + b"\x01")
    assert summary(fetch(topics=[topic])) == "topics=AAAAAAAAAAAAAAAAAAAAAQ"


def test_transactions_have_their_id_producer_and_outcome() -> None:
    end = codec.request_class(26)
    for committed, outcome in ((True, "commit"), (False, "abort")):
        request = end(transactional_id="t", producer_id=7, producer_epoch=0, committed=committed)
        assert summary(request) == (
            f"transactional-id=t producer=7 producer-epoch=0 outcome={outcome}"
        )
    add = codec.request_class(24)
    topic = add.AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])
    request = add(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=7,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=[topic],
    )
    assert summary(request) == "transactional-id=t producer=7 producer-epoch=3 topics=orders(2)"
    row = add.AddPartitionsToTxnTransaction(transactional_id="t", topics=[topic])
    assert summary(add(transactions=[row])) == "transactions=t"
    response = codec.response_class(22)(producer_id=7, producer_epoch=0)
    assert assigned(response) == "producer=7 producer-epoch=0"
    assert assigned(codec.response_class(26)()) == ""


def test_errors_are_named_once() -> None:
    response = traffic.commit_response(3)
    for each in response.topics:
        each.partitions[0].error_code = 25
    response.topics[2].partitions[0].error_code = 12345
    assert errors(response) == ["UNKNOWN_MEMBER_ID", "error 12345"]
    assert errors(traffic.commit_response()) == []


def test_groups_and_topics_are_found_at_any_depth() -> None:
    kind = codec.request_class(9)
    group = kind.OffsetFetchRequestGroup(
        group_id="deep", topics=[kind.OffsetFetchRequestTopics(name="t")]
    )
    request = kind(group_id="shallow", groups=[group])
    assert groups(request) == {"deep", "shallow"}
    assert topics(request) == {"t"}
    assert topics(traffic.produce_request(1, b"")) == {"topic-0"}


def test_topic_ids_are_named_from_metadata() -> None:
    topic_id = bytes(15) + b"\x01"
    kind = codec.response_class(3)
    row = kind.MetadataResponseTopic(name="orders", topic_id=topic_id)
    nameless = kind.MetadataResponseTopic(name=None, topic_id=bytes(15) + b"\x02")
    names = dict(named_topics(kind(topics=[row, nameless])))
    assert names == {topic_id: "orders"}
    fetch = codec.request_class(1)
    request = fetch(topics=[fetch.FetchTopic(topic_id=topic_id)])
    assert summary(request, names) == "topics=orders"
    assert topics(request, names) == {"orders"}
    assert topics(request) == {"AAAAAAAAAAAAAAAAAAAAAQ"}
    assert list(named_topics(codec.response_class(12)())) == []


def test_every_api_has_a_summary() -> None:
    for key in codec.api_keys():
        assert isinstance(summary(codec.request_class(key)()), str)
        assert errors(codec.response_class(key)()) == []
