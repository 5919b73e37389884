"""Commands to the identity provider: results, and texts without secrets."""

from __future__ import annotations

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
from tests.unit.control.identity_world import IdentityWorld


def test_commands_return_what_they_change() -> None:
    world = IdentityWorld()
    first = world.provider.keys.current

    def perform(command: object) -> tuple[list[str], list[str], list[str]]:
        status = perform_identity_command(world.broker, command)  # type: ignore[arg-type]
        return (
            [client.id for client in status.clients],
            [key.id for key in status.keys],
            [failure.id for failure in status.failures],
        )

    assert perform(PutClient({"id": "a", "secret": "s"})) == (["a"], [], [])
    ((), (second,), ()) = map(tuple, perform(AddSigningKey("ES256")))
    assert perform(AddIdentityFailure({"failure": "expired"})) == ([], [], ["i1"])
    everything = (["kafkalite", "a"], [first.id, second], ["i1"])
    assert perform(ShowIdentity()) == everything
    assert perform(ChangeTokens(audience="x")) == everything
    assert world.provider.audience == "x"
    assert perform(RemoveClient("a")) == (["a"], [], [])
    assert perform(RetireSigningKey(first.id)) == ([], [first.id], [])
    assert perform(RemoveIdentityFailure("i1")) == ([], [], ["i1"])
    assert perform(ClearIdentityFailures()) == ([], [], [])


def test_a_broker_without_provider_refuses() -> None:
    world = IdentityWorld()
    world.broker.identity = None
    with pytest.raises(CommandError, match="--oidc"):
        perform_identity_command(world.broker, ShowIdentity())


def test_the_text_of_a_command_has_no_secret() -> None:
    assert repr(PutClient({"id": "a", "secret": "s3cr3t"})) == "PutClient(id, secret)"
