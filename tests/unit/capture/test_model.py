"""Unit tests of the types of captures."""

from __future__ import annotations

from kafkalite.capture.model import Connection, Endpoint


def test_text_of_a_connection_has_both_endpoints() -> None:
    connection = Connection(
        number=0,
        client=Endpoint("10.0.0.7", 50_000),
        broker=Endpoint("::1", 9092),
        opened_ns=None,
    )

    assert str(connection) == "10.0.0.7:50000 > [::1]:9092"
