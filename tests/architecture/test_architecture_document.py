"""The architecture document names modules, classes, functions and tests that exist."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

from kafkalite.config.keys import broker_keys
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.server.broker import Broker
from kafkalite.server.gateways import STEPS
from kafkalite.server.settings import Settings
from tests.architecture.source import PACKAGE, ROOT, tree_of
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DOCUMENT = ROOT / "docs" / "architecture.md"
LAB = PACKAGE / "lab"

LITERAL = re.compile(r"[^ ]+ .*|--?[\w-]+|/v1/.*|__\w+|\d+", re.DOTALL)
"""Commands, options, paths of the HTTP API, internal topics: not checked here."""

NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
STEP_ROW = re.compile(r"^\| `StepOrder\.(\w+)` \| `(\w+)` \| (.*) \|$", re.MULTILINE)
TABLE_ROW = re.compile(r"^\| `([\w/]+)/` \| .* \| (\d+) \|$", re.MULTILINE)


def names_in(text: str) -> list[str]:
    """Return what stands in backticks outside of code blocks, in order, each once."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return list(dict.fromkeys(re.findall(r"`([^`]+)`", prose)))


def unknown_names(text: str) -> list[str]:
    """Return the names in backticks that do not exist."""
    return [name for name in names_in(text) if not exists(name)]


def exists(name: str) -> bool:
    """Whether a name is a literal, or is found in the source."""
    if LITERAL.fullmatch(name):
        return True
    if "/" in name or name.endswith((".py", ".md", ".toml")):
        return (PACKAGE / name).exists() or (ROOT / name).exists()
    if name.startswith("test_"):
        return name in names_of_tests()
    if not NAME.fullmatch(name):
        return False
    if name in ErrorCode.__members__ or name in broker_keys():
        return True
    return is_in_module(name.removeprefix("kafkalite.")) or is_in_class(name) or name in functions()


def is_in_module(name: str) -> bool:
    """Whether a name such as "package.module.Class.method" exists."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:count])
        remaining = parts[count:]
        if path.is_dir() and not remaining:
            return True
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if source.exists():
            return not remaining or has_member(tree_of(source), remaining)
    return False


def is_in_class(name: str) -> bool:
    """Whether a name such as "Class" or "Class.method" exists in any module."""
    class_name, *members = name.split(".")
    return any(not members or has_member(node, members) for node in classes().get(class_name, ()))


def has_member(node: ast.Module | ast.ClassDef, names: list[str]) -> bool:
    """Whether a module or class defines a name, or a class below it the rest of the names."""
    first, *remaining = names
    for member in node.body:
        if isinstance(member, ast.ClassDef) and member.name == first:
            return not remaining or has_member(member, remaining)
    if not remaining and first in defined_in(node):
        return True
    bases = node.bases if isinstance(node, ast.ClassDef) else []
    return any(
        has_member(base_class, names)
        for base in bases
        for base_class in classes().get(name_of_base(base), ())
        if base_class is not node
    )


def name_of_base(base: ast.expr) -> str:
    """Return "Base" for Base, Base[T] and module.Base."""
    if isinstance(base, ast.Subscript):
        base = base.value
    return ast.unparse(base).rpartition(".")[2]


def defined_in(node: ast.Module | ast.ClassDef) -> set[str]:
    """Return what a module or class defines: functions, assigned names, attributes of self."""
    names: set[str] = set()
    for member in node.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(member.name)
            if isinstance(node, ast.ClassDef):
                names |= attributes_of_self(member)
        elif isinstance(member, ast.Assign | ast.AnnAssign):
            targets = member.targets if isinstance(member, ast.Assign) else [member.target]
            names |= {ast.unparse(target) for target in targets}
    return names


def attributes_of_self(method: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the attributes that a method assigns."""
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


@cache
def classes() -> Mapping[str, list[ast.ClassDef]]:
    """Return the classes of all modules that are not generated messages, by name."""
    by_name: dict[str, list[ast.ClassDef]] = {}
    for path in modules():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                by_name.setdefault(node.name, []).append(node)
    return by_name


@cache
def functions() -> frozenset[str]:
    """Return the names of the functions of all modules that are not generated messages."""
    return frozenset(
        node.name
        for path in modules()
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef)
    )


def modules() -> Iterator[Path]:
    """Yield all modules without the generated messages and codecs."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "_generated" not in path.parts:
            yield path


@cache
def names_of_tests() -> frozenset[str]:
    """Return the names of all test functions and test modules."""
    names: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        names.add(path.stem)
        names.update(
            re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        )
    return frozenset(names)


def packages() -> set[str]:
    """Return the packages below kafkalite, with those of `lab` by themselves."""
    names = set()
    for folder in (PACKAGE, LAB):
        for path in folder.iterdir():
            if (path / "__init__.py").exists() and path != LAB:
                names.add(path.relative_to(PACKAGE).as_posix())
    return names


def rows_of_package_table(text: str) -> list[tuple[str, int]]:
    """Return the packages in the table of packages, with their layers, in its order."""
    return [(package, int(layer)) for package, layer in TABLE_ROW.findall(text)]


def layers() -> dict[str, int]:
    """Return package → its layer as import-linter has it, the topmost 1."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    return {
        name.strip().replace(".", "/"): depth
        for depth, layer in enumerate(contract["layers"], start=1)
        for name in layer.split("|")
    }


def text() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def test_every_name_in_the_document_exists() -> None:
    assert len(names_in(text())) > 100
    assert unknown_names(text()) == []


def test_the_table_of_packages_is_complete() -> None:
    rows = [package for package, _ in rows_of_package_table(text())]
    assert sorted(rows) == sorted(packages())


def test_the_table_of_packages_is_in_the_order_of_imports() -> None:
    rows = rows_of_package_table(text())
    assert rows == [(package, layers()[package]) for package, _ in rows]
    assert rows == sorted(rows, key=lambda row: row[1])


def test_the_table_of_steps_is_that_of_the_gateways() -> None:
    rows = STEP_ROW.findall(text())
    assert [(order, use) for order, _, use in rows] == [(row.order.name, row.use) for row in STEPS]


def test_every_architecture_test_is_named() -> None:
    names = names_in(text())
    missing = [
        path.stem
        for path in sorted((ROOT / "tests" / "architecture").glob("test_*.py"))
        if path.stem not in names
    ]
    assert missing == []


async def test_the_step_of_the_document_counts_the_requests_of_connected_clients() -> None:
    example = re.search(r"<!-- step -->\n```python\n(.*?)```", text(), re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {}
    exec(example.group(1), names)  # noqa: S102 - the document is ours
    early, late = names["RequestCounts"](), names["RequestCounts"]()
    broker = Broker(
        Settings(listen=("127.0.0.1:0",)),
        prepare=lambda broker: broker.gateway.install(early),
    )
    await broker.start()
    client = await Client.to(broker.bootstrap_servers)
    for number in range(6):
        if number == 2:
            broker.gateway.install(late)
        if number == 5:
            broker.gateway.remove(late)
        await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
        await client.ask(ApiVersionsRequest(), 0)
    assert early.counts == {("Metadata", METADATA_VERSION): 6}
    assert late.counts == {("Metadata", METADATA_VERSION): 3}
    await client.close()
    await broker.stop()


def test_a_name_that_does_not_exist_is_found() -> None:
    sample = (
        "`gateway/route.py` and `gateway/rout.py`, `gateway.route.Route.read` and\n"
        "`gateway.route.Route.reed`, `Gateway.install` and `Gateway.instal`, `GroupCoordinator"
        ".locate`,\n`GroupCoordinator.find`, `test_every_name_in_the_document_exists`, `test_none`,"
        "\n`ApiKey.OFFSET_COMMIT`, `NOT_COORDINATOR`, `NOT_A_CODE`, `POST /v1/faults`, `a-b`\n"
        "```\n`code.blocks.are.skipped`\n```\n"
    )
    assert unknown_names(sample) == [
        "gateway/rout.py",
        "gateway.route.Route.reed",
        "Gateway.instal",
        "GroupCoordinator.find",
        "test_none",
        "NOT_A_CODE",
        "a-b",
    ]


def test_a_package_that_is_missing_in_the_table_is_found() -> None:
    sample = "| `cli/` | commands | 1 |\n| `capture/` | frames | 10 |\n"
    assert rows_of_package_table(sample) == [("cli", 1), ("capture", 10)]
    assert {"gateway", "lab/columnar"} <= packages() - {
        package for package, _ in rows_of_package_table(sample)
    }
