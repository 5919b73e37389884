"""`kafka-storage`: ids, the format of data directories, and SCRAM users for the next start.

The broker formats its own data directory when it starts, with the id that `format` has stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.docker.credentials import Credential
from kafkalite.docker.files import ImageFiles
from kafkalite.docker.tools.arguments import (
    KafkaToolError,
    ToolError,
    ToolParser,
    bracketed_items,
    file_text,
    key_values,
    parsed_properties,
    unbracketed,
)
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
from kafkalite.docker.tools.running import run_tool, write_line
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.protocol.uuids import is_cluster_id, uuid_to_text
from kafkalite.security.sasl.scram_credentials import SCRAM_BY_NAME
from kafkalite.storage.data_directory import META_FILE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

_COMMANDS: Final = ("format", "info", "random-uuid", "version-mapping", "feature-dependencies")
_KRAFT_VERSION: Final = "kraft.version"
"""The feature whose level is not in the log of metadata."""
_DEFAULT_DIRECTORY: Final = "/tmp/kafka-logs"  # noqa: S108 - of Kafka


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: _run(name, arguments, environment))


def _run(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    parser = ToolParser(name, "Format data directories, make ids of clusters, and add SCRAM users.")
    parser.add_argument("command", choices=_COMMANDS)
    parser.add_argument("-t", "--cluster-id")
    parser.add_argument("-c", "--config")
    parser.add_argument("-S", "--add-scram", action="append", default=[])
    parser.add_argument("-f", "--feature", action="append", default=[])
    parser.add_argument("-r", "--release-version")
    parser.add_argument("-I", "--initial-controllers")
    parser.add_argument("-s", "--standalone", action="store_true")
    parser.add_argument("-N", "--no-initial-controllers", action="store_true")
    parser.add_argument("-g", "--ignore-formatted", action="store_true")
    parsed = parser.parse(arguments)
    if parsed.command == "random-uuid":
        write_line(uuid_to_text(SystemEntropy().uuid()))
    elif parsed.command == "version-mapping":
        write_version_mapping(parsed.release_version or LATEST)
    elif parsed.command == "feature-dependencies":
        write_dependencies(parsed.feature)
    elif parsed.command == "info":
        return _info(parsed, environment)
    elif not parsed.cluster_id:
        parser.error("argument --cluster-id/-t is required")
    else:
        _format(parsed, environment)
    return 0


def _format(parsed: Namespace, environment: Mapping[str, str]) -> None:
    """Store the id and the users for the start of the broker; raises ToolError."""
    # Some programs write the id in standard base64, with padding.
    cluster_id = parsed.cluster_id.rstrip("=").translate(str.maketrans("+/", "-_"))
    if not is_cluster_id(cluster_id):
        raise KafkaToolError(
            f"Cluster ID string {parsed.cluster_id} does not appear to be a valid UUID"
        )
    _check_levels(parsed)
    files = ImageFiles.of(environment)
    directories = _directories(parsed.config, environment) if parsed.config else []
    formatted = {each: _meta_properties(each, environment) for each in directories}
    for directory, properties in formatted.items():
        found = None if properties is None else properties.get("cluster.id")
        if found not in (None, cluster_id):
            raise KafkaToolError(
                f'Exception in thread "main" java.lang.RuntimeException: Invalid cluster.id in: '
                f"{directory}/{META_FILE}. Expected {cluster_id}, but read {found}"
            )
        if properties is not None and not parsed.ignore_formatted:
            raise KafkaToolError(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore "
                "this directory and format the others."
            )
    add_users(parsed.add_scram, "--add-scram", environment)
    files.set_formatted_cluster_id(cluster_id)
    others = [each for each, properties in formatted.items() if properties is None]
    if directories and not others:
        write_line("All of the log directories are already formatted.")
    if others:
        write_line(f"Bootstrap metadata: {_bootstrap_metadata()}")
    for directory in others:
        write_line(
            f"Formatting dynamic metadata voter directory {directory} with metadata.version "
            f"{LATEST}."
        )


def _bootstrap_metadata() -> str:
    """Return the records with the levels of features, as Java prints them."""
    metadata = metadata_level(LATEST)
    levels = {name: level for name, level in sorted(levels_of(LATEST).items()) if level}
    records = ", ".join(
        f"ApiMessageAndVersion(FeatureLevelRecord(name='{name}', featureLevel={level}) at version "
        "0)"
        for name, level in {METADATA_VERSION: metadata, **levels}.items()
        if name != _KRAFT_VERSION
    )
    return (
        f"BootstrapMetadata(records=[{records}], metadataVersionLevel={metadata}, "
        "source=format command)"
    )


def _check_levels(parsed: Namespace) -> None:
    """Raise ToolError for a start with other levels than those of this release."""
    if parsed.initial_controllers and "," in parsed.initial_controllers:
        raise ToolError(
            "--initial-controllers: the nodes of the cluster are those of KAFKALITE_BROKERS; write "
            "--standalone"
        )
    levels = {METADATA_VERSION: metadata_level(LATEST), **levels_of(LATEST)}
    requested = dict(map(feature_and_level, parsed.feature))
    if parsed.release_version:
        requested[METADATA_VERSION] = metadata_level(parsed.release_version)
    for name, level in requested.items():
        if levels.get(name) != level:
            raise ToolError(
                f"{name}={level_name(name, level)} is not supported here: a new cluster has "
                f"{', '.join(f'{each}={level_name(each, at)}' for each, at in levels.items())}. "
                "kafka-features changes levels of a running cluster"
            )


def _directories(path: str, environment: Mapping[str, str]) -> list[str]:
    """Return the log directories in a properties file, none if it cannot be read."""
    text = ImageFiles.of(environment).read_argument(path)
    if text is None:
        # The images write this file when they start; here, it is not needed.
        return []
    properties = parsed_properties(text, path)
    value = properties.get("log.dirs") or properties.get("log.dir") or _DEFAULT_DIRECTORY
    return [each.strip() for each in value.split(",") if each.strip()]


def _meta_properties(directory: str, environment: Mapping[str, str]) -> dict[str, str] | None:
    """Return the content of `meta.properties` in a directory; None without the file."""
    path = f"{directory}/{META_FILE}"
    text = ImageFiles.of(environment).read_argument(path)
    return None if text is None else parsed_properties(text, path)


def _info(parsed: Namespace, environment: Mapping[str, str]) -> int:
    """Print the log directories of a properties file, with their ids; return the status."""
    if not parsed.config:
        raise ToolError("info needs --config: the properties file of a broker")
    file_text(parsed.config, environment)
    directories = sorted(_directories(parsed.config, environment))
    files = ImageFiles.of(environment)
    existing = [each for each in directories if files.is_directory(each)]
    metadata = {each: _meta_properties(each, environment) for each in existing}
    problems = [f"{each} does not exist" for each in directories if each not in existing]
    problems += [f"{each} is not formatted." for each in existing if metadata[each] is None]
    if existing:
        plural = "y" if len(existing) == 1 else "ies"
        write_line(f"Found log director{plural}:")
        for each in existing:
            write_line(f"  {each}")
        write_line("")
    for properties in metadata.values():
        if properties is not None:
            shown = ", ".join(f"{key}={properties[key]}" for key in sorted(properties))
            write_line(f"Found metadata: {{{shown}}}\n")
            break
    if problems:
        write_line(f"Found problem{'s' * (len(problems) > 1)}:")
        for problem in problems:
            write_line(f"  {problem}")
        write_line("")
    return int(bool(problems))


def add_users(texts: Sequence[str], option: str, environment: Mapping[str, str]) -> None:
    """Store the users in texts of an option for the start of the broker; raises ToolError."""
    users = [_user(text, option) for text in texts]
    if users:
        ImageFiles.of(environment).add_formatted_users(users)


def _user(text: str, option: str) -> Credential:
    """Return the user in a text such as `SCRAM-SHA-256=[name=alice,password=secret]`."""
    mechanism, equals, rest = text.partition("=")
    if not equals or mechanism.strip() not in SCRAM_BY_NAME:
        raise ToolError(
            f"{option}: write MECHANISM=[name=NAME,password=PASSWORD]; mechanisms are "
            f"{', '.join(SCRAM_BY_NAME)}"
        )
    options = {
        key: value.strip('"')
        for key, value in key_values(bracketed_items(unbracketed(rest.strip())), option)
    }
    if not {"name", "password"} <= options.keys():
        raise ToolError(f"{option} needs a name and a password")
    if unsupported := options.keys() - {"name", "password", "iterations"}:
        raise ToolError(f"{option}: {', '.join(sorted(unsupported))} is not supported here")
    return Credential(options["name"], options["password"], mechanism.strip())
