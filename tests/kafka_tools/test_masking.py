"""Masks of the output of tools."""

from __future__ import annotations

from tests.kafka_tools.masking import masked


def test_ids_times_and_addresses_are_masked() -> None:
    text = (
        "reader-6ba7b810-9dad-11d1-80b4-00c04fd430c8\tF-KLPxq3T3io_Q1rxa9c2Q 1700000000123 h:9092"
    )
    assert masked(text, {"h:9092": "<bootstrap>"}) == ["reader-UUID ID TIME <bootstrap>"]


def test_hashes_are_masked() -> None:
    assert masked(f"salt={'0a' * 16}, version 1156b2752aaa28ea", {}) == [
        "salt=HEX, version 1156b2752aaa28ea"
    ]


def test_names_of_classes_and_options_are_no_ids() -> None:
    for text in (
        "org.apache.VoterNotFoundException",
        "--bootstrap-controller",
        "REGISTER_BROKER_RECORD",
    ):
        assert masked(text, {}) == [text]


def test_generated_groups_of_all_lengths_are_masked() -> None:
    for number in ("1", "12345", "123456789"):
        assert masked(f"console-consumer-{number}", {}) == ["console-group"]
        assert masked(f"console-share-consumer-{number}", {}) == ["console-group"]
    member = "console-consumer-12345678-9dad-11d1-80b4-00c04fd430c8"
    assert masked(member, {}) == ["console-consumer-UUID"]


def test_figures_are_masked_on_request() -> None:
    assert masked("2000 records, 12.5 ms", {}, figures=True) == ["N records, N ms"]
    assert masked("2000 records", {}) == ["2000 records"]
    assert masked("12.1571234567890", {}, figures=True) == ["N"]


def test_lists_of_options_and_stack_traces_are_removed() -> None:
    text = "Error: no\n  at a.B(B.java:1)\nCaused by: c\nOption   Description\n--help   Print"
    assert masked(text, {}) == ["Error: no", "<options>"]


def test_sets_have_one_order() -> None:
    assert masked("[WRITE, READ]", {}) == ["[READ, WRITE]"]
    assert masked('"offsets":[2,0,1]', {}) == ['"offsets":[0, 1, 2]']


def test_unwanted_lines_are_removed() -> None:
    assert masked("a=1\nb=2", {}, without="^b=") == ["a=1"]
