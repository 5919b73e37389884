"""`kafka-features`: show and change the levels of features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite import __version__
from kafkalite.client.brokers import ask_controller
from kafkalite.docker.tools.arguments import KafkaToolError, ToolParser, add_bootstrap_options
from kafkalite.docker.tools.exceptions import refused
from kafkalite.docker.tools.feature_levels import (
    LATEST,
    METADATA_VERSION,
    feature_and_level,
    level_name,
    levels_of,
    metadata_level,
    write_dependencies,
    write_version_mapping,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.update_features import UpdateFeaturesRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_COMMANDS: Final = (
    *("describe", "upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies"),
)
_PARTICIPLES: Final = {"upgrade": "upgraded", "downgrade": "downgraded", "disable": "disabled"}
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_VERSIONS: Final = Versions(3, 4)
_UPDATE_VERSIONS: Final = Versions(1, 2)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""

    def command() -> int:
        parsed = _parse(name, arguments)
        if parsed.command == "version-mapping":
            write_version_mapping(parsed.release_version or LATEST)
            return 0
        if parsed.command == "feature-dependencies":
            write_dependencies(parsed.feature)
            return 0
        return run_with_client(parsed, environment, _run)

    return run_tool(name, command)


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Show and change the levels of features.")
    parser.add_argument("command", choices=_COMMANDS)
    add_bootstrap_options(parser, has_controller=True)
    parser.add_values("feature", many=True, metavar="FEATURE=LEVEL")
    parser.add_values("release-version", "metadata")
    parser.add_values("node-id", type=int)
    parser.add_switches("dry-run", "unsafe")
    parsed = parser.parse(arguments)
    is_change = parsed.command in ("upgrade", "downgrade", "disable")
    if is_change and not (parsed.feature or parsed.release_version or parsed.metadata):
        parser.error(f"You must specify at least one feature to {parsed.command}")
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.command == "describe":
        await _describe(client, parsed.node_id)
    else:
        await _update(client, parsed)
    return 0


async def _describe(client: KafkaClient, node_id: int | None) -> None:
    request = ApiVersionsRequest(
        client_software_name="kafkalite", client_software_version=__version__
    )
    if node_id is None:
        response = await client.ask_any(request, _VERSIONS)
    else:
        brokers = {each.node_id: each for each in (await client.metadata()).brokers}
        if node_id not in brokers:
            raise KafkaToolError(
                f"--node-id {node_id}: the nodes are {', '.join(map(str, sorted(brokers)))}"
            )
        found = brokers[node_id]
        response = await client.ask(Address(found.host, found.port), request, _VERSIONS)
    if response.error_code:
        raise refused(response)
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    for each in sorted(response.supported_features, key=lambda row: str(row.name)):
        name = each.name
        level = level_name(name, finalized.get(name, 0))
        least, most = (level_name(name, value) for value in (each.min_version, each.max_version))
        write_line(
            f"Feature: {name}\tSupportedMinVersion: {least}\tSupportedMaxVersion: {most}\t"
            f"FinalizedVersionLevel: {level}\tEpoch: {response.finalized_features_epoch}"
        )


async def _update(client: KafkaClient, parsed: Namespace) -> None:
    levels = _levels(parsed)
    kind = _UPGRADE
    if parsed.command != "upgrade":
        kind = _UNSAFE_DOWNGRADE if parsed.unsafe else _SAFE_DOWNGRADE
    request = UpdateFeaturesRequest(
        feature_updates=[
            UpdateFeaturesRequest.FeatureUpdateKey(
                feature=name, max_version_level=level, upgrade_type=kind
            )
            for name, level in levels.items()
        ],
        validate_only=parsed.dry_run,
    )
    response = await ask_controller(client, request, _UPDATE_VERSIONS)
    failure: Any = None
    if response.error_code:
        failure = response
    results = {each.feature: each for each in response.results if each.error_code}
    verb = parsed.command
    for name, level in sorted(levels.items()):
        row = failure or results.get(name)
        target = "" if verb == "disable" else f" to {level}"
        if row is not None:
            can = "Can not" if parsed.dry_run else "Could not"
            reason = row.error_message or ErrorCode(row.error_code).message
            write_line(f"{can} {verb} {name}{target}. {reason}")
        else:
            did = "can be" if parsed.dry_run else "was"
            write_line(f"{name} {did} {_PARTICIPLES[verb]}{target}.")
    count = len(levels) if failure is not None else len(results)
    if count:
        raise KafkaToolError(f"{count} out of {len(levels)} operation(s) failed.")


def _levels(parsed: Namespace) -> dict[str, int]:
    """Return the requested levels; raises KafkaToolError."""
    levels: dict[str, int] = {}
    if parsed.release_version:
        levels = {
            METADATA_VERSION: metadata_level(parsed.release_version),
            **{name: level for name, level in levels_of(parsed.release_version).items() if level},
        }
    if parsed.metadata:
        write_line(" `metadata` flag is deprecated and may be removed in a future release.")
        levels[METADATA_VERSION] = metadata_level(parsed.metadata)
    for text in parsed.feature:
        name, level = (text, 0) if parsed.command == "disable" else feature_and_level(text)
        levels[name] = level
    return levels
