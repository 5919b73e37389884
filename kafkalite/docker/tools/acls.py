"""`kafka-acls`: add, list and remove ACLs."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

from kafkalite.docker.tools.arguments import (
    ToolError,
    ToolParser,
    add_bootstrap_options,
    error_reason,
)
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.protocol._generated.messages.create_acls import CreateAclsRequest
from kafkalite.protocol._generated.messages.delete_acls import DeleteAclsRequest
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol.acl_operations import Resource
from kafkalite.protocol.versions import Versions
from kafkalite.security.acls import (
    ANY,
    CLUSTER_NAME,
    OPERATION_NAMES,
    PATTERN_NAMES,
    PERMISSION_NAMES,
    RESOURCE_NAMES,
    WILDCARD,
    Acl,
    AclFilter,
    PatternType,
    PermissionType,
    name_of,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.client.client import KafkaClient

_ACTIONS: Final = ("add", "list", "remove")
_RESOURCES: Final = {
    "topic": Resource.TOPIC,
    "group": Resource.GROUP,
    "transactional_id": Resource.TRANSACTIONAL_ID,
    "delegation_token": Resource.DELEGATION_TOKEN,
    "user_principal": Resource.USER,
}
"""Option → type of resource."""
_SUPPORTED: Final[Mapping[Resource, tuple[str, ...]]] = {
    Resource.TOPIC: (
        *("READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER"),
        *("DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    ),
    Resource.GROUP: ("READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    Resource.CLUSTER: (
        *("CREATE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
        *("ALTER", "DESCRIBE"),
    ),
    Resource.TRANSACTIONAL_ID: ("DESCRIBE", "WRITE", "TWO_PHASE_COMMIT"),
    Resource.DELEGATION_TOKEN: ("DESCRIBE",),
    Resource.USER: ("CREATE_TOKENS", "DESCRIBE_TOKENS"),
}
"""Type of resource → the operations on it, in addition to ALL."""
_ROLES: Final[Mapping[str, Mapping[Resource, tuple[str, ...]]]] = {
    "producer": {
        Resource.TOPIC: ("WRITE", "DESCRIBE", "CREATE"),
        Resource.TRANSACTIONAL_ID: ("WRITE", "DESCRIBE"),
    },
    "idempotent": {Resource.CLUSTER: ("IDEMPOTENT_WRITE",)},
    "consumer": {Resource.TOPIC: ("READ", "DESCRIBE"), Resource.GROUP: ("READ",)},
}
"""Option → the operations that it allows, by type of resource."""
_CODES: Final = {name: code for code, name in OPERATION_NAMES.items()}
_PATTERNS: Final = {
    "literal": PatternType.LITERAL,
    "prefixed": PatternType.PREFIXED,
    "any": ANY,
    "match": PatternType.MATCH,
}
_NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)
_VERSIONS: Final = Versions(1, 3)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_client(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Add, list and remove ACLs.")
    add_bootstrap_options(parser, has_controller=True)
    for action in (*_ACTIONS, *_ROLES, "cluster", "force"):
        parser.add_argument(f"--{action}", action="store_true")
    for resource in _RESOURCES:
        parser.add_argument(f"--{resource.replace('_', '-')}", action="append", default=[])
    for option in ("--allow-principal", "--deny-principal", "--allow-host", "--deny-host"):
        parser.add_argument(option, action="append", default=[])
    parser.add_argument("--principal", action="append", default=[])
    parser.add_argument("--operation", action="append", default=[])
    parser.add_argument("--resource-pattern-type", choices=tuple(_PATTERNS), default="literal")
    parsed = parser.parse(arguments)
    if sum(getattr(parsed, action) for action in _ACTIONS) != 1:
        parser.error("exactly one of --add, --list and --remove is needed")
    if parsed.add and not (parsed.allow_principal or parsed.deny_principal):
        parser.error(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    if not parsed.list and not any(_resources(parsed)):
        parser.error(_NO_RESOURCE)
    if parsed.add:
        _check_operations(parser, parsed)
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.list:
        await _list(client, parsed)
        return 0
    if parsed.add:
        await _add(client, list(dict.fromkeys(_acls(parsed))), await _described(client, parsed))
    elif parsed.allow_principal or parsed.deny_principal:
        await _remove(client, [AclFilter(*acl) for acl in dict.fromkeys(_acls(parsed))])
    else:
        pattern = _PATTERNS[parsed.resource_pattern_type]
        await _remove(client, [AclFilter(*each, pattern) for each in _resources(parsed)])
    return 0


def _resources(parsed: Namespace) -> Iterator[tuple[Resource, str]]:
    for option, kind in _RESOURCES.items():
        for name in getattr(parsed, option):
            yield kind, name
    if parsed.cluster or parsed.idempotent:
        yield Resource.CLUSTER, CLUSTER_NAME


def _operations(parsed: Namespace, kind: Resource) -> list[int]:
    """Return the codes of the operations on a type of resource; raises ToolError."""
    names = [_BY_WORDS.get(_letters(name), name) for name in parsed.operation]
    roles = [role for role in _ROLES if getattr(parsed, role)]
    if roles:
        names += [name for role in roles for name in _ROLES[role].get(kind, ())]
    elif not names:
        names = ["ALL"]
    for name in names:
        if name not in _CODES:
            raise ToolError(f"--operation {name}: valid are {', '.join(_CODES)}")
    return [_CODES[name] for name in names]


def _letters(name: str) -> str:
    return name.replace("-", "").replace("_", "").upper()


_BY_WORDS: Final = {_letters(name): name for name in _CODES}


def _check_operations(parser: ToolParser, parsed: Namespace) -> None:
    """Raise UsageError for operations that a type of resource does not have."""
    for kind, _ in _resources(parsed):
        supported = ("ALL", *_SUPPORTED[kind])
        codes = {_CODES[name] for name in supported}
        if not codes.issuperset(_operations(parsed, kind)):
            parser.error(
                f"ResourceType {name_of(kind, RESOURCE_NAMES)} only supports operations "
                f"[{', '.join(supported)}]"
            )


def _acls(parsed: Namespace) -> Iterator[Acl]:
    """Yield the ACLs that the options describe."""
    pattern = _PATTERNS[parsed.resource_pattern_type]
    for permission, principals, hosts in (
        (PermissionType.ALLOW, parsed.allow_principal, parsed.allow_host),
        (PermissionType.DENY, parsed.deny_principal, parsed.deny_host),
    ):
        for (kind, name), principal, host in product(
            list(_resources(parsed)), principals, hosts or [WILDCARD]
        ):
            for operation in _operations(parsed, kind):
                yield Acl(kind, name, pattern, principal, host, operation, permission)


async def _add(client: KafkaClient, acls: Sequence[Acl], existing: Sequence[Acl]) -> None:
    for acl in acls:
        if acl in existing:
            write_line(
                f"Acl (pattern={_resource_text(acl)}, entry={_entry_text(acl)}) already exists."
            )
    added = [acl for acl in acls if acl not in existing]
    if not added:
        return
    rows = [
        CreateAclsRequest.AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in added
    ]
    response = await client.ask_any(CreateAclsRequest(creations=rows), _VERSIONS)
    _check(response.results)
    for resource, lines in _by_resource(added).items():
        write_line(f"Adding ACLs for resource `{resource}`: \n " + "\n".join(lines) + "\n")


async def _remove(client: KafkaClient, filters: Sequence[AclFilter]) -> None:
    rows = [
        DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=each.resource_type,
            resource_name_filter=each.resource_name,
            pattern_type_filter=each.pattern_type,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in filters
    ]
    response = await client.ask_any(DeleteAclsRequest(filters=rows), _VERSIONS)
    _check(response.filter_results)
    for result in response.filter_results:
        _check(result.matching_acls)


async def _list(client: KafkaClient, parsed: Namespace) -> None:
    for principal in parsed.principal:
        write_line(f"ACLs for principal `{principal}`")
    found = await _described(client, parsed)
    if parsed.principal:
        found = [acl for acl in found if acl.principal in parsed.principal]
    for resource, lines in _by_resource(found).items():
        write_line(f"Current ACLs for resource `{resource}`:\n" + "\n".join(lines) + "\n")


def _by_resource(acls: Sequence[Acl]) -> dict[str, list[str]]:
    """Return a line for each ACL by its resource, in the words of Kafka's tool."""
    lines: dict[str, list[str]] = {}
    for acl in acls:
        lines.setdefault(_resource_text(acl), []).append(f"\t{_entry_text(acl)}")
    return lines


def _resource_text(acl: Acl) -> str:
    return (
        f"ResourcePattern(resourceType={name_of(acl.resource_type, RESOURCE_NAMES)}, "
        f"name={acl.resource_name}, patternType={name_of(acl.pattern_type, PATTERN_NAMES)})"
    )


def _entry_text(acl: Acl) -> str:
    return (
        f"(principal={acl.principal}, host={acl.host}, "
        f"operation={name_of(acl.operation, OPERATION_NAMES)}, "
        f"permissionType={name_of(acl.permission, PERMISSION_NAMES)})"
    )


def _check(rows: Sequence[Any]) -> None:
    """Raise ToolError for the first error in the rows of a response."""
    for row in rows:
        if row.error_code:
            raise ToolError(error_reason(row))


async def _described(client: KafkaClient, parsed: Namespace) -> list[Acl]:
    """Return the ACLs of the resources that the options name, of all without one."""
    found: list[Acl] = []
    named: list[tuple[int, str | None]] = list(_resources(parsed))
    for kind, name in named or [(ANY, None)]:
        request = DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=ANY if name is None else _PATTERNS[parsed.resource_pattern_type],
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        response = await client.ask_any(request, _VERSIONS)
        if response.error_code:
            raise ToolError(error_reason(response))
        found += [
            Acl(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for resource in response.resources
            for acl in resource.acls
        ]
    return sorted(found)
