"""Errors about unknown names have similar names."""

from __future__ import annotations

from kafkalite.ports.similar_names import similar_names_hint


def test_hint_has_at_most_three_similar_names() -> None:
    known = ["orders", "orders-1", "orders-2", "orders-3", "payments"]
    hint = similar_names_hint("ordres", known)
    assert hint.startswith("; similar names are orders, ")
    assert hint.count(",") == 2


def test_without_a_similar_name_there_is_no_hint() -> None:
    assert not similar_names_hint("x", ["orders"])
    assert not similar_names_hint("orders", [])


def test_number_of_compared_names_is_limited() -> None:
    compared: list[int] = []

    def names() -> object:
        for number in range(1_000_000):
            compared.append(number)
            yield f"topic-{number}"

    assert similar_names_hint("topic-7" * 1_000, names()) == ""  # type: ignore[arg-type]
    assert len(compared) <= 2_001


def test_similar_names_are_found_among_many_others() -> None:
    known = [f"events-{number}" for number in range(1_900)] + ["orders"]
    assert similar_names_hint("ordrs", known) == "; similar names are orders"
