"""Outside `protocol/`, API keys are written as members of `ApiKey`, not as numbers."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.api_keys import ApiKey
from tests.architecture.source import PACKAGE, hand_written_modules, layer_of, nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

OTHER_NUMBERS = {
    ("packets", (1, 0, 108, 113, 276, 12, 14, 101, 228, 229)): "link types of packets",
    ("packets", (0x8100, 0x88A8, 0x9100, 0x9200)): "VLAN tags",
    ("packets", (17, 58, 59, 132)): "protocols of IP",
    ("packets", (0x8847, 0x8848)): "Ethernet types of MPLS",
    ("packets", (0x0021, 0x0057)): "protocols of PPP",
    ("compression", (1, 2, 3, 4)): "compression codecs of batches",
    ("id_mapping", (0, -1)): "ids of fetch sessions that stand for none",
    ("id_mapping", (-1,)): "numbers that stand for no name",
    ("id_mapping", (0,)): "ids of telemetry subscriptions that stand for none",
    ("producing", (-1, 0, 1)): "acknowledgements",
    ("producer", (1, 0)): "acknowledgements",
    ("http", (404, 405)): "HTTP statuses",
    ("cache", (0,)): "sizes",
    ("irregular_connections", (0, 1)): "directions",
}
"""(Module, numbers) → their meaning, for tables and sets that are not about APIs."""

_KEY_NAMES = {"api_key", "api_keys", "asked_key"}
_KEY_IN_QUERY = re.compile(r"\bapi_key\s*(?:=|!=|<>|in)\s*\(?\s*\d")
_KEY_PARAMETERS = {"api_key"}


def number(node: ast.AST | None) -> int | None:
    """Return the value of an integer literal; None for other nodes."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def numbers(nodes: Iterable[ast.AST | None]) -> tuple[int, ...]:
    """Return the values of the integer literals among the nodes."""
    return tuple(value for node in nodes if (value := number(node)) is not None)


def elements_of(node: ast.AST) -> list[ast.AST]:
    """Return the elements of a literal collection or of a call that makes one; else the node."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return list(node.elts)
    if isinstance(node, ast.Call) and _called_name(node) in {"frozenset", "set", "tuple", "list"}:
        return [element for argument in node.args for element in elements_of(argument)]
    return [node]


def _called_name(node: ast.Call) -> str:
    return _name(node.func)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _api_of_constant(name: str) -> int | None:
    """Return the key of the API in a constant's name, such as _PRODUCE or FETCH_KEY."""
    stem = name.strip("_").removesuffix("_KEY").upper()
    return int(ApiKey[stem]) if stem in ApiKey.__members__ else None


@cache
def key_parameters() -> dict[str, set[int]]:
    """Return function → positions of its parameters that are API keys."""
    positions_of: dict[str, set[int]] = {"Api": {0}, "ApiKey": {0}}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "_generated" in path.parts:
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
                names = names[1:] if names[:1] in (["self"], ["cls"]) else names
                positions = {
                    position for position, name in enumerate(names) if name in _KEY_PARAMETERS
                }
                if path.parent.name == "protocol" and path.stem == "catalogue":
                    positions |= {position for position, name in enumerate(names) if name == "key"}
                if positions:
                    positions_of.setdefault(node.name, set()).update(positions)
    return positions_of


def findings(module: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the places in a module where an integer is used as an API key."""
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Compare):
            if _is_keyed_by_number(node):
                yield f"{module}:{line}: an API key is compared with a number"
        elif isinstance(node, ast.Call):
            yield from (f"{module}:{line}: {finding}" for finding in _call_findings(node))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield from (f"{module}:{line}: {finding}" for finding in _assignment_findings(node))
        elif isinstance(node, ast.Constant) and _KEY_IN_QUERY.search(str(node.value)):
            yield f"{module}:{line}: a query has an API's number"
        table = _numbers_of_table(node)
        if table and (module.rpartition(".")[2], table) not in OTHER_NUMBERS:
            yield f"{module}:{line}: a table or set of numbers: {table}"


def _is_keyed_by_number(node: ast.Compare) -> bool:
    """Whether an API key is compared for equality with numbers, or for membership among them."""
    sides = [node.left, *node.comparators]
    is_choice = all(
        isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for operator in node.ops
    )
    is_of_key = any(_name(side) in _KEY_NAMES for side in sides)
    return is_choice and is_of_key and any(numbers(elements_of(side)) for side in sides)


def _call_findings(node: ast.Call) -> Iterator[str]:
    positions = key_parameters().get(_called_name(node), set())
    keys = [argument for position, argument in enumerate(node.args) if position in positions]
    if numbers(keys):
        yield f"{_called_name(node)} gets an API's number"
    if _called_name(node) == "Api" and numbers(
        keyword.value for keyword in node.keywords if keyword.arg == "key"
    ):
        yield "Api gets an API's number"
    if numbers(keyword.value for keyword in node.keywords if keyword.arg == "api_key"):
        yield "api_key is given as a number"


def _assignment_findings(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    value = node.value
    for target in targets:
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for name, element in pairs:
            if _name(name) in _KEY_NAMES and number(element) not in {None, -1}:
                yield f"{_name(name)} is a number"
            if number(element) is not None and number(element) == _api_of_constant(_name(name)):
                yield f"{_name(name)} is an API's number"


def _numbers_of_table(node: ast.AST) -> tuple[int, ...]:
    """Return the literal numbers that key a dict, or that a set consists of."""
    if isinstance(node, ast.Dict):
        return numbers(node.keys)
    if isinstance(node, ast.Set):
        return numbers(node.elts)
    if isinstance(node, ast.Call) and _called_name(node) in {"frozenset", "set"}:
        return numbers(
            element
            for argument in node.args
            if not isinstance(argument, ast.Set)
            for element in elements_of(argument)
        )
    return ()


def test_api_keys_outside_protocol_are_not_numbers() -> None:
    problems = [
        finding
        for path in hand_written_modules()
        if layer_of(path) != "protocol"
        for finding in findings(
            ".".join(path.relative_to(PACKAGE).with_suffix("").parts), nodes_of(path)
        )
    ]
    assert problems == []


def test_every_exception_is_needed() -> None:
    existing = {
        (path.stem, table)
        for path in hand_written_modules()
        if layer_of(path) != "protocol"
        for node in nodes_of(path)
        if (table := _numbers_of_table(node))
    }
    assert OTHER_NUMBERS.keys() - existing == set()


@pytest.mark.parametrize(
    "sample",
    [
        "if exchange.api_key == 18: pass",
        "if 3 != api_key: pass",
        "is_polled = header.api_key in (1, 78)",
        "is_polled = api_key in {1, 78}",
        "is_polled = api_key not in frozenset((1, 78))",
        "rows = [each for each in found if each.api_key == 0]",
        "_READERS: Mapping[int, Reader] = {0: produced, 1: fetched}",
        "WRITERS = frozenset((0, 8, 11))",
        "WRITERS = frozenset({19})",
        "NAMED = {3, 19, 75}",
        "PRODUCE = 0",
        "_PRODUCE: Final = 0",
        "FETCH, OFFSET_COMMIT = 1, 8",
        "_API_VERSIONS_KEY = 18",
        "api_key = 3",
        "api = Api(11, versions, handler, refuse)",
        "api = Api(key=11, versions=versions)",
        "row = ApiVersion(api_key=18, min_version=0)",
        "parse = codec.request_parser(8, version)",
        "name = codec.api_name(8)",
        "shape = shape_of(3, version, Direction.REQUEST)",
        "groups = entities_in_request(8, Entity.GROUP, request)",
        "key = ApiKey(8)",
        'frames.where("api_key = 26")',
        'frames.where("api_key in (68, 88)")',
    ],
)
def test_numeric_api_key_is_found(sample: str) -> None:
    assert list(findings("lab.sample", ast.walk(ast.parse(sample))))


@pytest.mark.parametrize(
    "sample",
    [
        "if exchange.api_key == ApiKey.API_VERSIONS: pass",
        "is_polled = api_key in _POLLED",
        "if version == 18: pass",
        "is_known = 0 <= api_key < MOST",
        "WRITERS = keys_where(lambda row: row.is_write)",
        "_READERS = {ApiKey.PRODUCE: produced, ApiKey.FETCH: fetched}",
        "PORT_TRIES = 16",
        "api_key = -1",
        "parse = codec.request_parser(ApiKey.OFFSET_COMMIT, 10)",
        "row = ApiVersion(api_key=ApiKey.FETCH, min_version=4)",
        "acks, timeout_ms = 0, 8",
        'frames.where(f"api_key = {int(key)}")',
    ],
)
def test_other_numbers_may_be_written(sample: str) -> None:
    assert list(findings("lab.sample", ast.walk(ast.parse(sample)))) == []
