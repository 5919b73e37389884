"""Rates, token buckets, and the selection of the quota of a client."""

from __future__ import annotations

from math import inf, nan

import pytest

from kafkalite.security.quotas import (
    UNLIMITED_CONNECTIONS,
    ConnectionRates,
    Meters,
    QuotaIndex,
    SimpleRate,
    TokenBucket,
    WindowedRate,
)

NOW_MS = 1_000_000
PRODUCER = "producer_byte_rate"
Entity = frozenset[tuple[str, str | None]]


def entity(**names: str | None) -> Entity:
    return frozenset((kind.replace("_", "-"), name) for kind, name in names.items())


def test_a_rate_within_its_limit_is_not_throttled() -> None:
    rate = WindowedRate(100.0, sample_count=11, window_ms=1000)
    # A new client has 10 complete windows in which it used nothing.
    assert rate.record(1000.0, NOW_MS) == 0
    assert rate.record(1.0, NOW_MS) == 10


def test_the_delay_brings_the_rate_back_to_its_limit() -> None:
    # Kafka's QuotaUtilsTest: 500 per window of a second for 11 windows, with one more of 1,100.
    rate = WindowedRate(500.0, sample_count=11, window_ms=1000)
    for window in range(10):
        assert rate.record(500.0, NOW_MS + window * 1000) == 0
    # 6,100 in 10 seconds are 610 per second.
    assert rate.record(1100.0, NOW_MS + 10_000) == round((610 - 500) / 500 * 10_000)


def test_amounts_older_than_all_windows_are_forgotten() -> None:
    rate = WindowedRate(10.0, sample_count=2, window_ms=1000)
    assert rate.record(100.0, NOW_MS) == 9000
    assert rate.record(10.0, NOW_MS + 1999) > 0
    later_ms = NOW_MS + 1999 + 2000
    assert rate.record(10.0, later_ms) == 0


def test_an_amount_can_be_taken_back() -> None:
    rate = WindowedRate(10.0, sample_count=2, window_ms=1000)
    assert rate.record(100.0, NOW_MS) == 9000
    rate.add(-100.0, NOW_MS)
    assert rate.record(10.0, NOW_MS) == 0


def test_a_window_without_requests_counts() -> None:
    rate = WindowedRate(10.0, sample_count=3, window_ms=1000)
    rate.add(30.0, NOW_MS)
    # The only sample is 2.5 seconds old and lies within the period of 3 seconds.
    assert rate.record(0.0, NOW_MS + 2500) == round((30 / 2.5 - 10) / 10 * 2500)


def test_a_simple_rate_is_measured_since_its_oldest_sample() -> None:
    rate = SimpleRate(10.0, sample_count=3, window_ms=1000)
    assert not rate.is_exceeded(NOW_MS)
    rate.add(11.0, NOW_MS)
    # At least one window is measured.
    assert rate.is_exceeded(NOW_MS)
    assert rate.is_exceeded(NOW_MS + 1000)
    assert not rate.is_exceeded(NOW_MS + 1100)
    rate.add(11.0, NOW_MS + 1100)
    assert rate.is_exceeded(NOW_MS + 2100)
    assert not rate.is_exceeded(NOW_MS + 2200)


def test_a_bucket_takes_a_burst_and_then_refills() -> None:
    # 5 per second over 100 windows of a second: a burst of 500.
    bucket = TokenBucket(5.0, sample_count=100, window_ms=1000)
    assert bucket.record(560.0, NOW_MS) == 12_000
    assert bucket.take(1.0, NOW_MS + 11_999) == 1
    assert bucket.take(1.0, NOW_MS + 12_000) == 0
    assert bucket.take(1.0, NOW_MS + 12_000) == 200


def test_a_refused_amount_takes_no_tokens() -> None:
    bucket = TokenBucket(1.0, sample_count=1, window_ms=1000)
    assert bucket.take(3.0, NOW_MS) == 0
    assert bucket.take(3.0, NOW_MS) == 2000
    assert bucket.take(3.0, NOW_MS) == 2000


LEVELS = {
    entity(user="alice", client_id="app"): 1.0,
    entity(user="alice", client_id=None): 2.0,
    entity(user="alice"): 3.0,
    entity(user=None, client_id="app"): 4.0,
    entity(user=None, client_id=None): 5.0,
    entity(user=None): 6.0,
    entity(client_id="app"): 7.0,
    entity(client_id=None): 8.0,
}
PAIR, USER, CLIENT = ("alice", "app"), ("alice", ""), ("", "app")
SHARED = [PAIR, PAIR, USER, PAIR, PAIR, USER, CLIENT, CLIENT]


@pytest.mark.parametrize("level", range(8))
def test_the_first_quota_in_the_order_of_kafka_applies(level: int) -> None:
    quotas = {each: {PRODUCER: limit} for each, limit in list(LEVELS.items())[level:]}
    index = QuotaIndex(quotas, PRODUCER)
    assert index.find("alice", "app") == (level + 1.0, SHARED[level])


def test_other_clients_and_keys_have_no_quota() -> None:
    quotas = {
        entity(user="alice", client_id="app"): {PRODUCER: 1.0},
        entity(ip="10.0.0.1"): {"connection_creation_rate": 1.0},
    }
    index = QuotaIndex(quotas, PRODUCER)
    assert index.find("alice", "other") is None
    assert index.find("bob", "app") is None
    assert not QuotaIndex(quotas, "consumer_byte_rate")
    assert not QuotaIndex(quotas, "connection_creation_rate")


def test_clients_share_the_quota_of_their_user() -> None:
    meters = Meters(WindowedRate, PRODUCER, sample_count=11, window_s=1)
    meters.apply({entity(user="alice"): {PRODUCER: 100.0}})
    first = meters.find("alice", "one", NOW_MS)
    assert first is not None
    assert first.record(1000.0, NOW_MS) == 0
    second = meters.find("alice", "two", NOW_MS)
    assert second is first
    assert second.record(10.0, NOW_MS) == 100
    assert meters.find("bob", "one", NOW_MS) is None


def test_a_changed_quota_applies_to_what_was_used_before() -> None:
    meters = Meters(WindowedRate, PRODUCER, sample_count=11, window_s=1)
    meters.apply({entity(user="alice"): {PRODUCER: 100.0}})
    meter = meters.find("alice", "app", NOW_MS)
    assert meter is not None
    assert meter.record(1000.0, NOW_MS) == 0
    meters.apply({entity(user="alice"): {PRODUCER: 50.0}})
    assert meters.find("alice", "app", NOW_MS) is meter
    assert meter.record(0.0, NOW_MS) == 10_000
    meters.apply({})
    assert meters.find("alice", "app", NOW_MS) is None


def test_the_largest_amount_without_throttling() -> None:
    meters = Meters(WindowedRate, PRODUCER, sample_count=11, window_s=1)
    meters.apply({entity(client_id=None): {PRODUCER: 100.0}})
    assert meters.max_amount("alice", "app") == 1000.0
    meters.apply({})
    assert meters.max_amount("alice", "app") == inf


def test_inactive_clients_are_forgotten() -> None:
    meters = Meters(WindowedRate, PRODUCER, sample_count=11, window_s=1)
    meters.apply({entity(client_id=None): {PRODUCER: 100.0}})
    old = meters.find("alice", "old", NOW_MS)
    assert old is not None
    old.record(1.0, NOW_MS)
    meters.find("alice", "new", NOW_MS + 3_600_001)
    assert meters.find("alice", "old", NOW_MS + 3_600_001) is not old


@pytest.mark.parametrize("limit", [5e-324, 1.0])
def test_a_delay_is_limited_as_in_java(limit: float) -> None:
    rate = WindowedRate(limit, sample_count=2, window_ms=1000)
    delay_ms = rate.record(1e300, NOW_MS)
    assert delay_ms <= 2**63 - 1
    assert delay_ms > 2**62
    bucket = TokenBucket(limit, sample_count=1, window_ms=1)
    assert 2**62 < bucket.record(1e300, NOW_MS) <= 2**63 - 1


def test_an_amount_that_is_not_a_number_is_not_throttled() -> None:
    assert WindowedRate(1.0, sample_count=2, window_ms=1000).record(nan, NOW_MS) == 0


def test_the_number_of_measured_clients_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalite.security.quotas._MAX_METERS", 2)
    meters = Meters(WindowedRate, PRODUCER, sample_count=11, window_s=1)
    meters.apply({entity(client_id=None): {PRODUCER: 100.0}})
    first = meters.find("", "a", NOW_MS)
    second = meters.find("", "b", NOW_MS)
    meters.find("", "c", NOW_MS)
    assert meters.find("", "b", NOW_MS) is second
    assert meters.find("", "a", NOW_MS) is not first


def test_names_without_a_limit_of_connections_have_no_rate() -> None:
    rates = ConnectionRates(11, 1)
    for _ in range(100):
        assert rates.record(rates.of_limits([("a", UNLIMITED_CONNECTIONS)], NOW_MS), NOW_MS) == 0
    # As in Kafka, a new limit applies to the connections of the last windows, too.
    assert rates.record(rates.of_limits([("a", 5)], NOW_MS), NOW_MS) == 1000


def test_the_longest_throttle_time_of_several_rates_applies() -> None:
    rates = ConnectionRates(2, 10)
    both = rates.of_limits([("a", 1), ("b", 2)], NOW_MS)
    assert rates.record(both, NOW_MS) == 0
    for _ in range(9):
        rates.record(both, NOW_MS)
    # 11 in 10 seconds, at 1 per second.
    assert rates.record(both, NOW_MS) == 1000


def test_a_limit_of_no_connections_throttles_for_one_window() -> None:
    rates = ConnectionRates(11, 3)
    assert rates.record(rates.of_limits([("a", 0)], NOW_MS), NOW_MS) == 3000


def test_the_rate_of_an_address_is_found_by_any_of_its_forms() -> None:
    rates = ConnectionRates(2, 1)
    quotas = {
        entity(ip="::ffff:10.0.0.1"): {"connection_creation_rate": 1.0},
        entity(ip="localhost"): {"connection_creation_rate": 2.0},
        entity(user="alice"): {PRODUCER: 1.0},
    }
    (rate,) = rates.of_address(quotas, "10.0.0.1", NOW_MS)
    assert (rate,) == rates.of_address(quotas, "::ffff:10.0.0.1", NOW_MS)
    assert rate.limit == 1.0
    assert [each.limit for each in rates.of_address(quotas, "127.0.0.1", NOW_MS)] == [2.0]
    assert rates.of_address(quotas, "10.0.0.2", NOW_MS) == ()
    assert rates.of_address({}, "10.0.0.1", NOW_MS) == ()
