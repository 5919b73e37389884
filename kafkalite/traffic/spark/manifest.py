"""The manifest of the output folder: the files that were read, their state, and their output.

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

_VERSION: Final = 2
"""Version of the manifest and of the tables; the output of another version is written again."""
_STORED_NAMES: Final = {"splits": "lots", "incomplete": "loose"}
"""Field → its key in a stored manifest, where it differs."""
_FIELDS: Final = {stored: name for name, stored in _STORED_NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSplit:
    """Files read by one task, and the paths that it wrote below the output folder."""

    inputs: tuple[InputFile, ...]
    requests: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    """Files with incomplete frames and unpaired requests, which other files may complete."""
    rows: int = 0
    quarantined: tuple[str, ...] = ()
    """Files that could not be read, or not to their end."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """All files that the task wrote."""
        return (*self.requests, *self.problems, *self.connections, *self.incomplete)


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit of reading: a file, or a part of a huge file."""

    file: InputFile
    part: FilePart | None = None

    @property
    def size(self) -> int:
        """Number of bytes."""
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
        fields = asdict(self, dict_factory=_stored_fields)
        return json.dumps({"form": _VERSION, **fields}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None, decoder: str) -> Manifest:
        """Parse a manifest; returns an empty one for None, and for a manifest of another decoder.

        Raises ValueError for an invalid text.
        """
        empty = cls(decoder=decoder)
        if text is None:
            return empty
        try:
            fields = json.loads(text)
            if fields.pop("form") != _VERSION or fields["decoder"] != decoder:
                return cls(decoder=decoder, run=int(fields["run"]))
            stitched = fields.pop("stitched")
            splits = tuple(_parse_split(split) for split in fields.pop(_STORED_NAMES["splits"]))
            return cls(
                splits=splits,
                stitched=None if stitched is None else _parse_split(stitched),
                **fields,
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


def plan(done: Manifest, listed: Iterable[InputFile], *, keep_removed_inputs: bool = False) -> Plan:
    """Compare the manifest with the current input files.

    With `keep_removed_inputs`, the output of deleted input files stays.
    """
    current = {file.url: file for file in listed}
    keep: list[InputSplit] = []
    drop: list[InputSplit] = []
    for split in done.splits:
        are_unchanged = [
            current.get(file.url) == file or (keep_removed_inputs and file.url not in current)
            for file in split.inputs
        ]
        (keep if all(are_unchanged) else drop).append(split)
    unchanged = {file.url for split in keep for file in split.inputs}
    read = tuple(file for file in current.values() if file.url not in unchanged)
    return Plan(keep=tuple(keep), drop=tuple(drop), read=read)


def split_inputs(
    files: Sequence[InputFile],
    parts: Mapping[str, Sequence[FilePart]],
    tasks: int,
    largest_bytes: int,
) -> list[tuple[Piece, ...]]:
    """Divide files into splits; files in `parts` get one split per part.

    So a split has either one part, or whole files.
    """
    part_splits = [(Piece(file, part),) for file in files for part in parts.get(file.url, ())]
    file_splits = split_evenly(
        [file for file in files if not parts.get(file.url)], tasks, largest_bytes
    )
    return [*part_splits, *(tuple(map(Piece, split)) for split in file_splits)]


class Sized(Protocol):
    """Data with a size that determines the time to read it."""

    @property
    def size(self) -> int:
        """Number of bytes."""


S = TypeVar("S", bound=Sized)


def split_evenly(files: Sequence[S], tasks: int, largest_bytes: int) -> list[tuple[S, ...]]:
    """Divide files into splits of consecutive files: enough splits for `tasks`, none too large.

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


def _stored_fields(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {_STORED_NAMES.get(name, name): value for name, value in fields}


def _parse_split(fields: dict[str, Any]) -> InputSplit:
    inputs = tuple(InputFile(**file) for file in fields.pop("inputs"))
    rows = int(fields.pop("rows"))
    paths = {_FIELDS.get(name, name): tuple(names) for name, names in fields.items()}
    return InputSplit(inputs=inputs, rows=rows, **paths)
