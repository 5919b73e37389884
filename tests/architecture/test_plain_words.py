"""Words that the project avoids, because a plainer one exists.

The check covers prose and names in code, tests and documentation. A name is split into its words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AVOIDED = {
    "accused": "emulator, broker under test",
    "alike": "equal, the same",
    "anew": "again",
    "anybody": "any client, any member",
    "befall": "happen to",
    "befalls": "happens to",
    "befell": "happened to",
    "beside": "next to, in addition to",
    "besides": "in addition to, other than",
    "errand": "call, task",
    "everybody": "all members, all clients",
    "guest": "client",
    "hear": "receive",
    "heard": "received",
    "hears": "receives",
    "judge": "check, validate, classify",
    "judged": "checked, validated, classified",
    "judges": "checks, validates, classifies",
    "kept": "stored, cached, retained",
    "leftover": "remaining",
    "newcomer": "new member",
    "nobody": "no client, no member",
    "owe": "have pending",
    "owed": "pending",
    "owes": "has pending",
    "remnant": "rest, partial frame",
    "said": "specified, reported",
    "sayable": "printable",
    "seat": "position, slot",
    "somebody": "a client, a member",
    "spell": "interval",
    "spells": "intervals",
    "stood": "was",
    "stories": "scenarios",
    "story": "scenario",
    "stranger": "unknown",
    "strangers": "unknown",
    "stumble": "fail",
    "stumbles": "fails",
    "surroundings": "context",
    "tell": "report",
    "telling": "reporting",
    "tells": "reports",
    "told": "reported, received",
    "wanted": "requested, expected, required",
    "whatever": "any, every",
    "whoever": "the client that",
    "wish": "request",
    "wishes": "requests",
    "witness": "evidence",
}
"""Word → what to write instead."""

ALLOWED = {
    ("docs/changes.md", None): "names before their change",
    ("tests/architecture/test_plain_words.py", None): "this list",
    ("docs/reference/error-texts.md", "wanted"): "a text of Kafka",
    ("kafkalite/protocol/error_texts.py", "wanted"): "a text of Kafka",
    ("kafkalite/lab/spark/follow/stream.py", "judged"): "a name before its change",
    ("kafkalite/protocol/invalid_frames.py", "tell"): "a method of Python's files",
    ("kafkalite/protocol/primitives.py", "tell"): "a method of Python's files",
    ("tests/properties/test_codecs.py", "tell"): "a method of Python's files",
}
"""(path, word, or None for all words) → why it is used there."""

_FOLDERS = ("docker", "docs", "examples", "integrations", "kafkalite", "tests")
_SUFFIXES = {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".j2"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def checked_files() -> Iterator[tuple[Path, str]]:
    """Yield (path, path relative to the project) of the files that people write."""
    paths = [*ROOT.iterdir(), *(path for name in _FOLDERS for path in (ROOT / name).rglob("*"))]
    for path in sorted(paths):
        if path.suffix in _SUFFIXES and "_generated" not in path.parts and path.is_file():
            yield path, path.relative_to(ROOT).as_posix()


def avoided_words(text: str) -> set[str]:
    """Return the avoided words in a text."""
    return {word.lower() for word in _WORD.findall(text)} & AVOIDED.keys()


def test_avoided_words_are_not_used() -> None:
    avoided = {
        name: words
        for path, name in checked_files()
        if (name, None) not in ALLOWED
        and (
            words := {
                f"{word}: {AVOIDED[word]}"
                for word in avoided_words(path.read_text(encoding="utf-8"))
                if (name, word) not in ALLOWED
            }
        )
    }
    assert avoided == {}


def test_every_allowed_word_is_used() -> None:
    words = {name: avoided_words(path.read_text("utf-8")) for path, name in checked_files()}
    unused = [
        (name, word)
        for name, word in ALLOWED
        if not (words.get(name) if word is None else word in words.get(name, ()))
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def told_of(whoever): ...", {"told", "whoever"}),
        ("class StrangerTopics:", {"stranger"}),
        ("Untold bookkeeping of seats", set()),
        ("OWED = 1", {"owed"}),
    ],
)
def test_words_are_found_in_names_and_prose(text: str, words: set[str]) -> None:
    assert avoided_words(text) == words
