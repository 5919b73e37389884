"""`kafka-delegation-tokens`: create, show, renew and expire delegation tokens."""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_controller
from kafkalite.docker.tools.arguments import ToolError, ToolParser, add_bootstrap_options
from kafkalite.docker.tools.exceptions import terse_failure
from kafkalite.docker.tools.running import run_tool, run_with_client, write_line
from kafkalite.docker.tools.tables import write_table
from kafkalite.protocol._generated.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
)
from kafkalite.protocol._generated.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
)
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.protocol.message import Message

_ACTIONS: Final = ("create", "renew", "expire", "describe")
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}
_VERSIONS: Final = Versions(1, 3)
_PERIOD_VERSIONS: Final = Versions(1, 2)
_HEADER: Final = (
    *("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE"),
)
_WIDTHS: Final = (15, 30, 15, 15, 25, 15, 15, 15)


def main(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the tool; return its exit status."""
    return run_tool(name, lambda: run_with_client(_parse(name, arguments), environment, _run))


def _parse(name: str, arguments: Sequence[str]) -> Namespace:
    parser = ToolParser(name, "Create, show, renew and expire delegation tokens.")
    add_bootstrap_options(parser)
    parser.add_switches(*_ACTIONS)
    parser.add_values("hmac")
    parser.add_values("max-life-time-period", "renew-time-period", "expiry-time-period", type=int)
    parser.add_values("owner-principal", "renewer-principal", many=True)
    parsed = parser.parse(arguments)
    action = parser.single(
        parsed,
        _ACTIONS,
        "Command must include exactly one action: --create, --renew, --expire or --describe",
    )
    for option in _NEEDED[action]:
        if getattr(parsed, option.replace("-", "_")) is None:
            parser.error(f'Missing required argument "[{option}]"')
    return parsed


async def _run(client: KafkaClient, parsed: Namespace) -> int:
    if parsed.create:
        await _create(client, parsed)
    elif parsed.renew:
        await _renew(client, parsed)
    elif parsed.expire:
        await _expire(client, parsed)
    else:
        await _describe(client, parsed)
    return 0


def _principal(text: str) -> tuple[str, str]:
    """Return type and name of a principal such as `User:ann`; raises ToolError."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ToolError(f"{text!r} is not a principal: write TYPE:NAME, such as User:ann")
    return kind, name


async def _create(client: KafkaClient, parsed: Namespace) -> None:
    renewers = ", ".join(parsed.renewer_principal)
    write_line(
        f"Calling create token operation with renewers :[{renewers}] , max-life-time-period "
        f":{parsed.max_life_time_period}"
    )
    row = CreateDelegationTokenRequest.CreatableRenewers
    owner = _principal(parsed.owner_principal[0]) if parsed.owner_principal else (None, None)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner[0],
        owner_principal_name=owner[1],
        renewers=[
            row(principal_type=kind, principal_name=name)
            for kind, name in map(_principal, parsed.renewer_principal)
        ],
        max_lifetime_ms=parsed.max_life_time_period,
    )
    response = await ask_controller(client, request, _VERSIONS)
    _check(response)
    write_line(f"Created delegation token with tokenId : {response.token_id}")
    times = (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms)
    requester = (
        response.token_requester_principal_type or response.principal_type,
        response.token_requester_principal_name or response.principal_name,
    )
    write_line("")
    write_table(
        _HEADER,
        [
            (
                response.token_id,
                b64encode(response.hmac).decode(),
                f"{response.principal_type}:{response.principal_name}",
                ":".join(requester),
                f"[{renewers}]",
                *map(_date, times),
            )
        ],
        _WIDTHS,
    )


def _check(response: Any) -> None:  # noqa: ANN401 - any response class
    if response.error_code:
        raise terse_failure(response)


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1_000, tz=UTC).strftime("%Y-%m-%dT%H:%M")


def _hmac(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ToolError(f"--hmac {text!r} is not base64") from None


async def _renew(client: KafkaClient, parsed: Namespace) -> None:
    period_ms = parsed.renew_time_period
    request = RenewDelegationTokenRequest(hmac=_hmac(parsed.hmac), renew_period_ms=period_ms)
    await _change_expiry(client, parsed, "renew", request, f"renew-time-period :{period_ms}")


async def _expire(client: KafkaClient, parsed: Namespace) -> None:
    period_ms = parsed.expiry_time_period
    request = ExpireDelegationTokenRequest(hmac=_hmac(parsed.hmac), expiry_time_period_ms=period_ms)
    await _change_expiry(client, parsed, "expire", request, f"expire-time-period :{period_ms}")


async def _change_expiry(
    client: KafkaClient, parsed: Namespace, operation: str, request: Message, period: str
) -> None:
    """Change when a token expires, and print the operation and the result."""
    write_line(f"Calling {operation} token operation with hmac :{parsed.hmac} , {period}")
    response = await ask_controller(client, request, _PERIOD_VERSIONS)
    _check(response)
    date = _date(response.expiry_timestamp_ms)
    write_line(f"Completed {operation} operation. New expiry date : {date}")


async def _describe(client: KafkaClient, parsed: Namespace) -> None:
    owners = parsed.owner_principal
    subject = f"owners: [{', '.join(owners)}]" if owners else "current user."
    write_line(f"Calling describe token operation for {subject}")
    row = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    # As Kafka's tool, which names no owner for the current user, and then gets no tokens.
    request = DescribeDelegationTokenRequest(
        owners=[
            row(principal_type=kind, principal_name=name) for kind, name in map(_principal, owners)
        ]
    )
    response = await client.ask_any(request, _VERSIONS)
    _check(response)
    write_line(f"Total number of tokens : {len(response.tokens)}")
    rows = []
    for each in response.tokens:
        renewers = ", ".join(
            f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers
        )
        requester = (
            each.token_requester_principal_type or each.principal_type,
            each.token_requester_principal_name or each.principal_name,
        )
        rows.append(
            (
                each.token_id,
                b64encode(each.hmac).decode(),
                f"{each.principal_type}:{each.principal_name}",
                ":".join(requester),
                f"[{renewers}]",
                *map(_date, (each.issue_timestamp, each.expiry_timestamp, each.max_timestamp)),
            )
        )
    write_table(_HEADER, rows, _WIDTHS)
