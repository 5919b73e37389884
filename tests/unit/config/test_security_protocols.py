"""Security protocols, and the map of listener names to them."""

from __future__ import annotations

import pytest

from kafkalite.config.security_protocols import SecurityProtocol, parse_protocol_map


def test_protocols_say_whether_they_use_tls_and_sasl() -> None:
    uses = {each.value: (each.uses_tls, each.uses_sasl) for each in SecurityProtocol}
    assert uses == {
        "PLAINTEXT": (False, False),
        "SSL": (True, False),
        "SASL_PLAINTEXT": (False, True),
        "SASL_SSL": (True, True),
    }


def test_the_map_has_names_in_upper_case() -> None:
    assert parse_protocol_map("inside:plaintext, Outside : SASL_SSL,,") == {
        "INSIDE": SecurityProtocol.PLAINTEXT,
        "OUTSIDE": SecurityProtocol.SASL_SSL,
    }
    assert parse_protocol_map("") == {}


@pytest.mark.parametrize("text", ["A:B", "A:SSL,B"])
def test_an_entry_without_a_protocol_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not NAME:PROTOCOL with one of PLAINTEXT, SSL, "):
        parse_protocol_map(text)
