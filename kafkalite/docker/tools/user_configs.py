"""`kafka-configs` for users, clients and IP addresses: quotas and SCRAM credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_controller
from kafkalite.config.definitions import java_double_text
from kafkalite.docker.tools.arguments import KafkaToolError, ToolError, bracketed_items, key_values
from kafkalite.docker.tools.config_entities import CLIENTS, IPS, USERS
from kafkalite.docker.tools.exceptions import refused
from kafkalite.docker.tools.running import write_line
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol._generated.messages.alter_client_quotas import AlterClientQuotasRequest
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
)
from kafkalite.protocol._generated.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.security.sasl.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_BY_NAME,
    salt_password,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.client.client import KafkaClient
    from kafkalite.docker.tools.config_entities import ConfigCommand

_ENTITY_TYPES: Final[Mapping[str, str]] = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
_TITLES: Final[Mapping[str, str]] = {
    "user": "user-principal",
    "client-id": "client-id",
    "ip": "ip",
}
_USER_QUOTAS: Final = frozenset((
    "consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage",
))  # fmt: skip
_IP_QUOTAS: Final = frozenset(("connection_creation_rate",))
_EXACT, _DEFAULT, _ANY = 0, 1, 2
"""Types of matches of DescribeClientQuotas."""
_QUOTA_VERSIONS: Final = Versions(0, 1)
_SCRAM_VERSIONS: Final = Versions(0, 0)


async def describe(client: KafkaClient, command: ConfigCommand) -> None:
    """Print the quotas of entities, and the SCRAM credentials of users."""
    components = [
        DescribeClientQuotasRequest.ComponentData(
            entity_type=_ENTITY_TYPES[kind],
            match_type=_ANY if name is None else _EXACT if name else _DEFAULT,
            match=name or None,
        )
        for kind, name in command.entities
    ]
    request = DescribeClientQuotasRequest(components=components, strict=True)
    response = await client.ask_any(request, _QUOTA_VERSIONS)
    if response.error_code:
        raise refused(response)
    for entry in response.entries or ():
        names = {each.entity_type: each.entity_name for each in entry.entity}
        titles = [_title(kind, names[kind]) for kind in _TITLES if kind in names]
        values = ", ".join(f"{each.key}={java_double_text(each.value)}" for each in entry.values)
        write_line(f"Quota configs for {', '.join(titles)} are {values}")
    (entity, *others) = command.entities
    if not others and entity.kind == USERS and entity.name != "":
        await _describe_credentials(client, entity.name)


def _title(kind: str, name: str | None) -> str:
    return f"the default {_TITLES[kind]}" if name is None else f"{_TITLES[kind]} '{name}'"


async def _describe_credentials(client: KafkaClient, user: str | None) -> None:
    row = DescribeUserScramCredentialsRequest.UserName
    request = DescribeUserScramCredentialsRequest(users=None if user is None else [row(name=user)])
    response = await client.ask_any(request, _SCRAM_VERSIONS)
    if response.error_code:
        raise refused(response)
    names = {each.number: name for name, each in SCRAM_BY_NAME.items()}
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        if result.error_code:
            raise refused(result)
        credentials = ", ".join(
            f"{names[each.mechanism]}=iterations={each.iterations}"
            for each in result.credential_infos
        )
        write_line(f"SCRAM credential configs for user-principal '{result.user}' are {credentials}")


async def alter(client: KafkaClient, command: ConfigCommand) -> None:
    """Change quotas or credentials of entities; raises ToolError."""
    kinds = [each.kind for each in command.entities]
    names = {*command.added, *command.deleted}
    mechanisms = SCRAM_BY_NAME.keys() if kinds == [USERS] else set()
    valid = _IP_QUOTAS if kinds == [IPS] else _USER_QUOTAS
    if unknown := sorted(names - valid - mechanisms):
        subject = (
            "quota and SCRAM credential configs"
            if kinds == [USERS]
            else "connection quota configs"
            if kinds == [IPS]
            else "quota configs"
        )
        raise KafkaToolError(
            f"Only {subject} can be added for '{kinds[-1]}' using --bootstrap-server. "
            f"Unexpected config names: {','.join(unknown)}"
        )
    if names - mechanisms:
        await _alter_quotas(client, command)
    if names & mechanisms:
        await _alter_credentials(client, command)


async def _alter_quotas(client: KafkaClient, command: ConfigCommand) -> None:
    rows = AlterClientQuotasRequest
    entity = [
        rows.EntityData(entity_type=_ENTITY_TYPES[kind], entity_name=name or None)
        # The order of Kafka's tool, in which records have the parts of an entity.
        for kind, name in sorted(command.entities)
    ]
    ops = [
        rows.OpData(key=key, value=_quota(key, text))
        for key, text in command.added.items()
        if key not in SCRAM_BY_NAME
    ]
    ops += [
        rows.OpData(key=key, value=0.0, remove=True)
        for key in command.deleted
        if key not in SCRAM_BY_NAME
    ]
    request = rows(entries=[rows.EntryData(entity=entity, ops=ops)])
    response = await ask_controller(client, request, _QUOTA_VERSIONS)
    for entry in response.entries:
        if entry.error_code:
            raise refused(entry)


def _quota(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise KafkaToolError(f"Cannot parse quota configuration value for {key}: {text}") from None


async def _alter_credentials(client: KafkaClient, command: ConfigCommand) -> None:
    (entity,) = command.entities
    if not entity.name:
        raise KafkaToolError("The use of --entity-default or --user-defaults is not allowed with "
                             "User SCRAM Credentials using --bootstrap-server.")  # fmt: skip
    rows = AlterUserScramCredentialsRequest
    upsertions = [
        _upsertion(entity.name, name, text)
        for name, text in command.added.items()
        if name in SCRAM_BY_NAME
    ]
    deletions = [
        rows.ScramCredentialDeletion(name=entity.name, mechanism=SCRAM_BY_NAME[name].number)
        for name in command.deleted
        if name in SCRAM_BY_NAME
    ]
    request = rows(upsertions=upsertions, deletions=deletions)
    response = await ask_controller(client, request, _SCRAM_VERSIONS)
    for result in response.results:
        if result.error_code:
            raise refused(result)


def _upsertion(user: str, name: str, text: str) -> Any:  # noqa: ANN401 - a row of the request
    mechanism = SCRAM_BY_NAME[name]
    options = dict(key_values(bracketed_items(text), "--add-config"))
    if "password" not in options:
        raise ToolError(f"--add-config {name} needs a password")
    iterations = _iterations(options.get("iterations", f"{MIN_ITERATIONS}"), name)
    salt = SystemEntropy().uuid()
    return AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism.number,
        iterations=iterations,
        salt=salt,
        salted_password=salt_password(mechanism, options["password"], salt, iterations),
    )


def _iterations(text: str, mechanism: str) -> int:
    """Return the number of iterations, within the limits of brokers; raises ToolError."""
    if not text.isascii() or not text.isdigit():
        raise ToolError(f"--add-config: iterations are a number, not {text!r}")
    if int(text) < MIN_ITERATIONS:
        raise KafkaToolError(
            f"Iterations {text} is less than the minimum {MIN_ITERATIONS} required for {mechanism}"
        )
    if int(text) > MAX_ITERATIONS:
        raise KafkaToolError(
            f"Iterations {text} is greater than the maximum {MAX_ITERATIONS} allowed for "
            f"{mechanism}"
        )
    return int(text)
