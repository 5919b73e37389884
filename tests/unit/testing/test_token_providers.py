"""Token providers of client libraries."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
from aiokafka.abc import AbstractTokenProvider

from kafkalite.testing import Broker
from kafkalite.testing.token_providers import (
    OAuthLogin,
    aiokafka_token_provider,
    kafka_python_token_provider,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def login() -> Iterator[OAuthLogin]:
    with Broker(oidc=True) as broker:
        yield OAuthLogin(broker.identity.token_endpoint, "kafkalite", "kafkalite-secret")


async def test_aiokafka_gets_a_token(login: OAuthLogin) -> None:
    provider = aiokafka_token_provider(login)
    assert isinstance(provider, AbstractTokenProvider)
    assert (await provider.token()).count(".") == 2


def test_kafka_python_gets_a_token(login: OAuthLogin) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing this client warns
        provider = kafka_python_token_provider(login)
    assert provider.token().count(".") == 2


def test_the_text_of_a_login_has_no_secret(login: OAuthLogin) -> None:
    assert "secret" not in repr(login)
