"""Commands to the identity provider: results, and texts without secrets."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from kafkalite.control.commands import CommandError
from kafkalite.control.identity_commands import (
    AddIdentityFailure,
    AddSigningKey,
    ChangeTokens,
    ClearIdentityFailures,
    PutClient,
    RemoveClient,
    RemoveIdentityFailure,
    RetireSigningKey,
    ShowIdentity,
    perform_identity_command,
)
from kafkalite.identity import signing_keys
from kafkalite.identity.errors import IdentityError
from tests.unit.control.identity_world import BASIC, REQUEST, IdentityWorld

if TYPE_CHECKING:
    from joserfc.jwk import Key


async def test_commands_return_what_they_change() -> None:
    world = IdentityWorld()
    first = world.provider.keys.current

    async def perform(command: object) -> tuple[list[str], list[str], list[str]]:
        status = await perform_identity_command(world.broker, command)  # type: ignore[arg-type]
        return (
            [client.id for client in status.clients],
            [key.id for key in status.keys],
            [failure.id for failure in status.failures],
        )

    assert await perform(PutClient({"id": "a", "secret": "s"})) == (["a"], [], [])
    ((), (second,), ()) = map(tuple, await perform(AddSigningKey("ES256")))
    assert await perform(AddIdentityFailure({"failure": "expired"})) == ([], [], ["i1"])
    everything = (["kafkalite", "a"], [first.id, second], ["i1"])
    assert await perform(ShowIdentity()) == everything
    assert await perform(ChangeTokens(audience="x")) == everything
    assert world.provider.audience == "x"
    assert await perform(RemoveClient("a")) == (["a"], [], [])
    assert await perform(RetireSigningKey(first.id)) == ([], [first.id], [])
    assert await perform(RemoveIdentityFailure("i1")) == ([], [], ["i1"])
    assert await perform(ClearIdentityFailures()) == ([], [], [])


async def test_keys_are_made_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    world = IdentityWorld()
    threads = []

    def new_key(algorithm: str) -> Key:
        threads.append(threading.current_thread())
        return signing_keys_new_key(algorithm)

    signing_keys_new_key = signing_keys.new_key
    monkeypatch.setattr(signing_keys, "new_key", new_key)
    await perform_identity_command(world.broker, AddSigningKey())
    await perform_identity_command(world.broker, AddIdentityFailure({"failure": "wrong_key"}))
    with pytest.raises(IdentityError):
        await perform_identity_command(world.broker, AddSigningKey("none"))
    assert world.provider.token(REQUEST, BASIC["authorization"]).status == 200
    assert len(threads) == 2
    assert threading.current_thread() not in threads


async def test_a_broker_without_provider_refuses() -> None:
    world = IdentityWorld()
    world.broker.identity = None
    with pytest.raises(CommandError, match="--oidc"):
        await perform_identity_command(world.broker, ShowIdentity())


def test_the_text_of_a_command_has_no_secret() -> None:
    assert repr(PutClient({"id": "a", "secret": "s3cr3t"})) == "PutClient(id, secret)"
