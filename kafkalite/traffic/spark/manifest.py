"""The manifest of the output folder: which files were read, in which state, with which output.

Files are read in splits, one split per task; a part of a huge file is a split by itself. The output
depends only on the input. If a file of a split changed or is gone, the whole output of the split is
deleted, and its remaining files are read again. So the output of all parts of a file is deleted
together.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkalite.traffic.spark.locations import InputFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.traffic.columnar.file_parts import FilePart

NAME: Final = "_kafkalite/manifest.json"
"""Path of the manifest below the output folder."""

_FORM: Final = 1
_SPLITS: Final = "lots"
"""Key of the splits in a stored manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSplit:
    """Files read by one task, and the paths that it wrote below the output folder."""

    inputs: tuple[InputFile, ...]
    requests: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()
    """Files with incomplete frames and unpaired requests, which other files may complete."""
    rows: int = 0
    quarantined: tuple[str, ...] = ()
    """Files that could not be read, or not to their end."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """All files that the task wrote."""
        return (*self.requests, *self.problems, *self.connections, *self.loose)


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit of reading: a file, or a part of a huge file."""

    file: InputFile
    part: FilePart | None = None

    @property
    def size(self) -> int:
        """Its number of bytes."""
        return self.file.size if self.part is None else self.part.size_in(self.file.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The state of an output folder."""

    decoder: str
    """Identifies the decoder and its options; output of other decoders is discarded."""
    run: int = 0
    splits: tuple[InputSplit, ...] = ()
    stitched: InputSplit | None = None
    """The output of joining the incomplete frames of all splits."""
    audited: str = ""
    """Identifies the audits, and their options, that the audit tables were made with."""

    @property
    def outputs(self) -> frozenset[str]:
        """All files that belong to the output."""
        stitched = () if self.stitched is None else self.stitched.outputs
        return frozenset([*stitched, *(name for split in self.splits for name in split.outputs)])

    def to_json(self) -> str:
        """Return the manifest as JSON."""
        fields = {
            _SPLITS if name == "splits" else name: value for name, value in asdict(self).items()
        }
        return json.dumps({"form": _FORM, **fields}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None, decoder: str) -> Manifest:
        """Parse a manifest; an empty one for None, or for a manifest of another decoder.

        Raises ValueError for an invalid text.
        """
        empty = cls(decoder=decoder)
        if text is None:
            return empty
        try:
            fields = json.loads(text)
            if fields.pop("form") != _FORM or fields["decoder"] != decoder:
                return cls(decoder=decoder, run=int(fields["run"]))
            stitched = fields.pop("stitched")
            splits = tuple(_split(split) for split in fields.pop(_SPLITS))
            return cls(
                splits=splits, stitched=None if stitched is None else _split(stitched), **fields
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"invalid manifest: {error!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Splits whose output stays, splits whose output is deleted, and files to read."""

    keep: tuple[InputSplit, ...]
    drop: tuple[InputSplit, ...]
    read: tuple[InputFile, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be done."""
        return not self.drop and not self.read


def plan(done: Manifest, listed: Iterable[InputFile], *, keep_vanished: bool = False) -> Plan:
    """Compare the manifest with the current input files.

    With `keep_vanished`, the output of deleted input files stays.
    """
    current = {file.url: file for file in listed}
    keep: list[InputSplit] = []
    drop: list[InputSplit] = []
    for split in done.splits:
        are_unchanged = [
            current.get(file.url) == file or (keep_vanished and file.url not in current)
            for file in split.inputs
        ]
        (keep if all(are_unchanged) else drop).append(split)
    unchanged = {file.url for split in keep for file in split.inputs}
    read = tuple(file for file in current.values() if file.url not in unchanged)
    return Plan(keep=tuple(keep), drop=tuple(drop), read=read)


def pieces(
    files: Sequence[InputFile],
    parts: Mapping[str, Sequence[FilePart]],
    tasks: int,
    largest_bytes: int,
) -> list[tuple[Piece, ...]]:
    """Divide files into splits; files in `parts` get one split per part.

    Parts have separate splits, so a split never has both parts and files.
    """
    part_splits = [(Piece(file, part),) for file in files for part in parts.get(file.url, ())]
    file_splits = split_evenly(
        [file for file in files if not parts.get(file.url)], tasks, largest_bytes
    )
    return [*part_splits, *(tuple(map(Piece, split)) for split in file_splits)]


class Sized(Protocol):
    """Anything with a size that determines its reading time."""

    @property
    def size(self) -> int:
        """Its number of bytes."""


S = TypeVar("S", bound=Sized)


def split_evenly(files: Sequence[S], tasks: int, largest_bytes: int) -> list[tuple[S, ...]]:
    """Divide files into splits of neighbours: enough splits for `tasks`, and none too large.

    A split exceeds `largest_bytes` only if a single file does.
    """
    if not files:
        return []
    target_bytes = max(1, min(largest_bytes, -(-sum(file.size for file in files) // max(1, tasks))))
    groups: list[list[S]] = [[]]
    size = 0
    for file in files:
        if groups[-1] and size + file.size > target_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return [tuple(split) for split in groups]


def _split(fields: dict[str, Any]) -> InputSplit:
    inputs = tuple(InputFile(**file) for file in fields.pop("inputs"))
    rows = int(fields.pop("rows"))
    return InputSplit(
        inputs=inputs, rows=rows, **{name: tuple(names) for name, names in fields.items()}
    )
