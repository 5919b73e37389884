"""Errors of SASL exchanges."""

from __future__ import annotations

from kafkalite.security.sasl.mechanism import SaslAuthenticationError, SaslError


def test_an_error_with_a_text_for_the_client_is_a_kind_of_sasl_error() -> None:
    assert issubclass(SaslAuthenticationError, SaslError)
