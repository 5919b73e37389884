"""`kafka-configs`: show and change configurations, and add SCRAM users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.layers import ConfigSource
from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    add_bootstrap_options,
    bracketed_items,
    error_reason,
    key_values,
    unbracketed,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol._generated.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol.versions import Versions
from kafkalite.security.sasl.scram_credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_BY_NAME,
    salt_password,
)
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.protocol.message import Message

_TOPICS: Final = "topics"
_BROKERS: Final = "brokers"
_USERS: Final = "users"
_RESOURCE_TYPES: Final = {_TOPICS: 2, _BROKERS: 4}
_SET, _DELETE = 0, 1
_DESCRIBE_VERSIONS: Final = Versions(1, 4)
_ALTER_VERSIONS: Final = Versions(0, 1)
_USER_VERSIONS: Final = Versions(0, 0)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_client(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Show and change configurations, and add SCRAM users.")
    add_bootstrap_options(parser)
    parser.add_argument("--describe", action="store_true")
    parser.add_argument("--alter", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--entity-type", choices=(_TOPICS, _BROKERS, _USERS))
    parser.add_argument("--entity-name")
    for entity, option in ((_TOPICS, "topic"), (_BROKERS, "broker"), (_USERS, "user")):
        parser.add_argument(f"--{option}", dest=f"name_of_{entity}")
    parser.add_argument("--entity-default", action="store_true")
    parser.add_argument("--add-config")
    parser.add_argument("--delete-config")
    parsed = parser.parse(arguments)
    for entity in (_TOPICS, _BROKERS, _USERS):
        entity_name = getattr(parsed, f"name_of_{entity}")
        if entity_name is not None:
            parsed.entity_type, parsed.entity_name = entity, entity_name
    if parsed.alter is parsed.describe:
        parser.error("exactly one of --alter and --describe is needed")
    if parsed.entity_type is None or not (parsed.entity_name or parsed.entity_default):
        parser.error("--entity-type and --entity-name are needed")
    if parsed.alter and not (parsed.add_config or parsed.delete_config):
        parser.error("--alter needs --add-config or --delete-config")
    if parsed.entity_type == _USERS and (parsed.describe or parsed.delete_config):
        parser.error("of users, only --alter --add-config is supported")
    if parsed.entity_type == _USERS and not parsed.entity_name:
        parser.error("users need --entity-name")
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.describe:
        await _describe(client, parsed)
    elif parsed.entity_type == _USERS:
        await _add_users(client, parsed)
    else:
        await _alter(client, parsed)
    if parsed.alter and parsed.entity_name:
        kind = parsed.entity_type.removesuffix("s")
        write_line(f"Completed updating config for {kind} {parsed.entity_name}.")
    elif parsed.alter:
        write_line(f"Completed updating default config for {parsed.entity_type} in the cluster.")
    return 0


async def _ask(client: KafkaClient, parsed: Namespace, request: Message, versions: Versions) -> Any:  # noqa: ANN401 - any response class
    """Return the response of the broker that a request is about, else of any broker."""
    if parsed.entity_type == _BROKERS and parsed.entity_name:
        for broker in (await client.metadata()).brokers:
            if str(broker.node_id) == parsed.entity_name:
                return await client.ask(Address(broker.host, broker.port), request, versions)
        raise ToolError(f"there is no broker {parsed.entity_name}")
    return await client.ask_any(request, versions)


async def _describe(client: KafkaClient, parsed: Namespace) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_RESOURCE_TYPES[parsed.entity_type],
        resource_name=parsed.entity_name or "",
        configuration_keys=None,
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    result = (await _ask(client, parsed, request, _DESCRIBE_VERSIONS)).results[0]
    if result.error_code:
        raise ToolError(error_reason(result))
    if parsed.entity_name:
        kind = parsed.entity_type.removesuffix("s")
        scope = "All" if parsed.all else "Dynamic"
        write_line(f"{scope} configs for {kind} {parsed.entity_name} are:")
    else:
        write_line(f"Default configs for {parsed.entity_type} in the cluster are:")
    own_source = _own_source(parsed)
    for config in sorted(result.configs, key=lambda each: str(each.name)):
        if parsed.all or config.config_source == own_source:
            write_line(f"  {_setting(config)}")


def _own_source(parsed: Namespace) -> ConfigSource:
    """Return the source of the values that are set for the entity itself."""
    if parsed.entity_type == _TOPICS:
        return ConfigSource.DYNAMIC_TOPIC
    return (
        ConfigSource.DYNAMIC_BROKER if parsed.entity_name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    )


def _setting(config: Any) -> str:  # noqa: ANN401 - of many versions
    """Return a setting and where its value comes from, as Kafka's tool prints it."""
    synonyms = ", ".join(
        f"{ConfigSource(each.source).name}_CONFIG:{each.name}={_shown(each.value)}"
        for each in config.synonyms
    )
    sensitive = str(config.is_sensitive).lower()
    return f"{config.name}={_shown(config.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _shown(value: str | None) -> str:
    return "null" if value is None else value


async def _alter(client: KafkaClient, parsed: Namespace) -> None:
    row = IncrementalAlterConfigsRequest.AlterableConfig
    configs = [
        row(name=key, config_operation=_SET, value=unbracketed(value))
        for key, value in key_values(bracketed_items(parsed.add_config or ""), "--add-config")
    ]
    configs += [
        row(name=key, config_operation=_DELETE, value=None)
        for key in bracketed_items(parsed.delete_config or "")
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=_RESOURCE_TYPES[parsed.entity_type],
        resource_name=parsed.entity_name or "",
        configs=configs,
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await _ask(client, parsed, request, _ALTER_VERSIONS)
    for result in response.responses:
        if result.error_code:
            raise ToolError(error_reason(result))


async def _add_users(client: KafkaClient, parsed: Namespace) -> None:
    entropy = SystemEntropy()
    rows = []
    for name, text in key_values(bracketed_items(parsed.add_config), "--add-config"):
        mechanism = SCRAM_BY_NAME.get(name)
        if mechanism is None:
            raise ToolError(
                f"--add-config {name} is not supported for users; supported are "
                f"{', '.join(SCRAM_BY_NAME)}"
            )
        options = dict(key_values(bracketed_items(unbracketed(text)), "--add-config"))
        if "password" not in options:
            raise ToolError(f"--add-config {name} needs a password")
        iterations = _iterations(options.get("iterations", f"{MIN_ITERATIONS}"))
        salt = entropy.uuid()
        rows.append(
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=parsed.entity_name,
                mechanism=mechanism.number,
                iterations=iterations,
                salt=salt,
                salted_password=salt_password(mechanism, options["password"], salt, iterations),
            )
        )
    request = AlterUserScramCredentialsRequest(upsertions=rows)
    response = await client.ask_any(request, _USER_VERSIONS)
    for result in response.results:
        if result.error_code:
            raise ToolError(error_reason(result))


def _iterations(text: str) -> int:
    """Return the number of iterations, within the limits of brokers; raises ToolError."""
    if text.isascii() and text.isdigit() and MIN_ITERATIONS <= int(text) <= MAX_ITERATIONS:
        return int(text)
    raise ToolError(
        f"--add-config: iterations are {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {text!r}"
    )
