"""Durable state changes only in `replay_*` methods, so that replaying the log restores it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import PACKAGE, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HARD_STATE: dict[str, dict[str, frozenset[str]]] = {
    "metadata/acls.py": {"Acls": frozenset()},
    "metadata/delegation_tokens.py": {"DelegationTokens": frozenset()},
    "metadata/image_table.py": {"ImageTable": frozenset({"_image", "_is_changed"})},
    "metadata/scram_credentials.py": {"ScramCredentials": frozenset()},
    "metadata/topics.py": {"Topics": frozenset()},
    "metadata/brokers.py": {"Brokers": frozenset()},
    "metadata/configs.py": {"Configs": frozenset()},
    "metadata/features.py": {"Features": frozenset()},
    "metadata/producer_ids.py": {"ProducerIds": frozenset()},
    "groups/offsets.py": {"Offsets": frozenset()},
    "groups/modern/group.py": {"ModernGroup": frozenset()},
    "groups/modern/replay.py": {"GroupReplay": frozenset()},
    "groups/offset_expiration.py": {"OffsetExpiration": frozenset()},
    "groups/classic/group.py": {"ClassicGroup": frozenset({"soft"})},
    "groups/classic/groups.py": {"ClassicGroups": frozenset({"_unreplayed_groups", "_undo"})},
    # `_subscribed` is a cache of values derived from the other fields.
    "groups/consumer/group.py": {"ConsumerGroup": frozenset({"soft", "_subscribed"})},
    "groups/share/group.py": {"ShareGroup": frozenset({"soft"})},
    "groups/streams/group.py": {"StreamsGroup": frozenset({"soft"})},
    "shares/shard.py": {"ShareShard": frozenset({"image"})},
    "transactions/registry.py": {"TransactionRegistry": frozenset({"transaction_version"})},
    "transactions/shard.py": {"TransactionShard": frozenset()},
    "transactions/expiration.py": {
        "TransactionExpiration": frozenset({"_loaded_at_ms", "_next_abort_ms", "_next_removal_ms"})
    },
}
"""Module → class → its fields with soft state, which may change at any time."""

MUTATORS = frozenset(
    (
        "add", "append", "clear", "discard", "drop", "end", "extend", "insert", "supersede", "pop",
        "popitem", "remove", "setdefault", "subtract", "update",
    )
)  # fmt: skip

CLASSES = [(path, name) for path, classes in HARD_STATE.items() for name in classes]


def class_in(path: str, name: str) -> ast.ClassDef:
    return next(
        node
        for node in tree_of(PACKAGE / path).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )


def methods_of(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {member.name: member for member in node.body if isinstance(member, ast.FunctionDef)}


def calls_of_self(method: ast.FunctionDef) -> set[str]:
    """Return the methods of its own class that a method refers to."""
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def is_replayer(name: str) -> bool:
    return name == "__init__" or name.startswith("replay_")


def replay_methods(methods: dict[str, ast.FunctionDef]) -> set[str]:
    """Return the `replay_*` methods, and the private methods that only these call."""
    names = {name for name in methods if is_replayer(name)}
    while True:
        outside = set().union(*(calls_of_self(methods[name]) for name in methods.keys() - names))
        inside = set().union(*(calls_of_self(methods[name]) for name in names))
        more = {
            name for name in inside - outside - names if name in methods and name.startswith("_")
        }
        if not more:
            return names
        names |= more


def changed_fields(method: ast.FunctionDef) -> Iterator[str]:
    """Yield the fields of self that a method assigns, deletes from, or calls a mutator of."""
    for node in ast.walk(method):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in MUTATORS
        ):
            targets = [node.func.value]
        for target in targets:
            if (field := field_of_self(target)) is not None:
                yield field


def field_of_self(target: ast.expr) -> str | None:
    """Return `a` for self.a, self.a[key], self.a.b and the like; None for anything else."""
    field = None
    while isinstance(target, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(target, ast.Attribute):
            field = target.attr
            target = target.value
        else:
            target = target.func if isinstance(target, ast.Call) else target.value
    return field if isinstance(target, ast.Name) and target.id == "self" else None


@pytest.mark.parametrize(("path", "name"), CLASSES, ids=[name for _, name in CLASSES])
def test_durable_state_changes_only_in_replay_methods(path: str, name: str) -> None:
    methods = methods_of(class_in(path, name))
    soft = HARD_STATE[path][name]
    elsewhere = {
        f"{method}: {field}"
        for method in methods.keys() - replay_methods(methods)
        for field in changed_fields(methods[method])
        if field not in soft
    }
    assert elsewhere == set()


def test_change_outside_replay_methods_is_found() -> None:
    source = (
        "class Machine:\n"
        "    def replay_x(self): self._take(1)\n"
        "    def _take(self, x): self.a[x] = 1\n"
        "    def decide(self): self.b.pop(1); self._shared()\n"
        "    def replay_y(self): self._shared()\n"
        "    def _shared(self): del self.c[1]\n"
    )
    (machine,) = ast.parse(source).body
    assert isinstance(machine, ast.ClassDef)
    methods = methods_of(machine)
    assert replay_methods(methods) == {"replay_x", "_take", "replay_y"}
    assert list(changed_fields(methods["decide"])) == ["b"]
    assert list(changed_fields(methods["_shared"])) == ["c"]
