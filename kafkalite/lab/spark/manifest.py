"""The manifest of the output folder: the files that were read, their state, and their output.

Files are read in splits, one split per task; a part of a huge file is a split by itself. The output
depends only on the input. If a file of a split changed or is gone, the whole output of the split is
deleted, and its remaining files are read again. So the output of all parts of a file is deleted
together.

The output of files that are gone cannot be made again. Once a run has retained it on demand, no run
deletes it: a run that would have to is refused.

The manifest is stored as a small head, which each run replaces, and as parts, which have the splits
and never change.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkalite.lab.spark.locations import InputFile, without_parent_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalite.lab.columnar.files.file_parts import FilePart

NAME: Final = "_kafkalite/manifest.json"
"""Path of the manifest's head below the output folder."""
PARTS: Final = "_kafkalite/manifest"
"""Folder of the manifest's parts below the output folder."""

PART_SPLITS: Final = 1_000
"""Maximum number of splits of a part: about 2 MB."""

_VERSION: Final = 4
"""Version of the form of the manifest."""
_SINGLE_FILE: Final = 3
"""The version whose manifests are one file and do not list the files of the audits."""
_DECODER_PER_FOLDER: Final = 2
"""The version whose manifests have one text for the decoder and the selection of all splits."""
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
    skipped: tuple[str, ...] = ()
    """Files that are no captures."""
    decoder: str = ""
    """Identity of the decoder that wrote the output."""
    is_retained: bool = False
    """Whether a run retained the output although inputs were gone."""

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

    selection: str = ""
    """The selection of requests that all output has; empty in a new folder."""
    run: int = 0
    splits: tuple[InputSplit, ...] = ()
    stitched: InputSplit | None = None
    """The output of joining the incomplete frames of all splits."""
    audited: str = ""
    """Identifies the audits, and their options, that the audit tables were made with."""
    derived: tuple[str, ...] | None = ()
    """Files of state and audit tables; None if an earlier version wrote them."""

    @property
    def outputs(self) -> frozenset[str]:
        """All files of requests, problems and connections."""
        stitched = () if self.stitched is None else self.stitched.outputs
        return frozenset([*stitched, *(name for split in self.splits for name in split.outputs)])

    @property
    def rows(self) -> int:
        """Number of requests."""
        stitched = 0 if self.stitched is None else self.stitched.rows
        return stitched + sum(split.rows for split in self.splits)

    @property
    def files(self) -> frozenset[str]:
        """All files that belong to the output."""
        return self.outputs.union(self.derived or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest:
    """A manifest and the parts that contain its splits."""

    manifest: Manifest = Manifest()
    parts: Mapping[str, tuple[InputSplit, ...]] = field(default_factory=dict)
    """Path of each part below the output folder → its splits."""

    def head(self) -> str:
        """Return the head as JSON: all fields but the splits, and the paths of the parts."""
        fields = asdict(replace(self.manifest, splits=()), dict_factory=_stored_fields)
        del fields[_STORED_NAMES["splits"]]
        return _to_json({"form": _VERSION, **fields, "parts": [*self.parts]})

    def next(self, manifest: Manifest) -> StoredManifest:
        """Return a changed manifest with its parts; parts with unchanged splits stay.

        Small parts are merged with new splits, so there are few of them after many runs.
        """
        remaining = Counter(manifest.splits)
        unchanged = {}
        for name, splits in self.parts.items():
            if all(remaining[split] >= times for split, times in Counter(splits).items()):
                unchanged[name] = splits
                remaining.subtract(splits)
        if remaining.total():
            for name, splits in list(unchanged.items()):
                if len(splits) < PART_SPLITS // 2:
                    remaining.update(unchanged.pop(name))
        new = [split for split in manifest.splits if _take(remaining, split)]
        names = (f"{PARTS}/{manifest.run:06}-{number:04}.json" for number in count())
        unused = (name for name in names if name not in self.parts)  # parts never change
        parts = {
            next(unused): tuple(new[first : first + PART_SPLITS])
            for first in range(0, len(new), PART_SPLITS)
        }
        return StoredManifest(manifest=manifest, parts={**unchanged, **parts})


def part_to_json(splits: Sequence[InputSplit]) -> str:
    """Return a part as JSON."""
    return _to_json([asdict(split, dict_factory=_stored_fields) for split in splits])


def part_names(head: str | None) -> tuple[str, ...]:
    """Return the paths of the parts in a head; raises ValueError if it is invalid."""
    fields = {} if head is None else json.loads(head)
    try:
        return tuple(fields.get("parts", ()))
    except AttributeError as error:
        raise ValueError(f"invalid manifest: {error!r}") from error


def parse(head: str | None, parts: Mapping[str, str]) -> StoredManifest:
    """Parse a manifest; returns an empty one for None; raises ValueError for invalid text.

    A manifest of a form that this version does not know is invalid, because its output cannot be
    validated.
    """
    if head is None:
        return StoredManifest()
    try:
        fields = json.loads(head)
        form = fields.pop("form")
        if form == _DECODER_PER_FOLDER:
            _split_decoder(fields)
        elif form not in (_SINGLE_FILE, _VERSION):
            raise ValueError(
                f"written by another version of kafkalite (form {form}); use that version, or"
                " another --out"
            )
        stitched = fields.pop("stitched")
        stitched = None if stitched is None else _parse_split(stitched)
        if form == _VERSION:
            derived = tuple(fields.pop("derived"))
            by_part = {name: _parse_part(name, parts[name]) for name in fields.pop("parts")}
            splits = tuple(split for each in by_part.values() for split in each)
        else:
            derived, by_part = None, {}
            splits = tuple(map(_parse_split, fields.pop(_STORED_NAMES["splits"])))
        manifest = Manifest(splits=splits, stitched=stitched, derived=derived, **fields)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"invalid manifest: {error!r}") from error
    return StoredManifest(manifest=manifest, parts=by_part)


def _parse_part(name: str, text: str) -> tuple[InputSplit, ...]:
    if not text:
        raise ValueError(f"{name} is missing")
    return tuple(map(_parse_split, json.loads(text)))


def _take(remaining: Counter[InputSplit], split: InputSplit) -> bool:
    """Whether a split remains; it is removed."""
    remaining[split] -= 1
    return remaining[split] >= 0


def _to_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


class RetainedOutputError(Exception):
    """A run would delete output that it must retain; the text is one line for users."""


class Reason(StrEnum):
    """Why the output of a split is deleted."""

    CHANGED = "input files changed"
    GONE = "input files are gone, and --keep-removed-inputs is not set"
    DECODER = "another version of the decoder wrote them"
    SELECTION = "the selection of requests changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Splits whose output stays, splits whose output is deleted, and files to read."""

    keep: tuple[InputSplit, ...]
    drop: Mapping[Reason, tuple[InputSplit, ...]]
    read: tuple[InputFile, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be done."""
        return not self.drop and not self.read

    def lines(self) -> Iterator[str]:
        """Yield one line per reason for which tables are written again, with these tables."""
        for reason, splits in self.drop.items():
            tables = table_names(name for split in splits for name in split.outputs)
            if tables:
                yield f"writing {', '.join(tables)} again: {reason}"


def table_names(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the tables of output files that users see, in order."""
    folders = {path.rpartition("/")[0].partition("/date=")[0] for path in paths}
    return tuple(sorted(folder for folder in folders if not folder.startswith("_")))


def plan(
    done: Manifest,
    listed: Iterable[InputFile],
    *,
    decoder: str,
    selection: str,
    keep_removed_inputs: bool = False,
) -> Plan:
    """Compare the manifest with the current input files, decoder and selection.

    With `keep_removed_inputs`, the output of deleted input files stays, also that of another
    decoder. Raises RetainedOutputError if it cannot stay.
    """
    current = {file.url: file for file in listed}
    is_same_selection = not done.splits or done.selection == selection
    keep: list[InputSplit] = []
    drop: dict[Reason, list[InputSplit]] = {}
    for split in done.splits:
        gone = [file.url for file in split.inputs if file.url not in current]
        changed = [file.url for file in split.inputs if current.get(file.url, file) != file]
        if gone and (split.is_retained or keep_removed_inputs):
            _check_stays(gone, changed, is_same_selection, keep_removed_inputs)
            keep.append(replace(split, is_retained=True))
            continue
        is_outdated = {
            Reason.GONE: bool(gone),
            Reason.CHANGED: bool(changed),
            Reason.SELECTION: not is_same_selection,
            Reason.DECODER: split.decoder != decoder,
        }
        reason = next((reason for reason, applies in is_outdated.items() if applies), None)
        if reason is None:
            keep.append(split)
        else:
            drop.setdefault(reason, []).append(split)
    unchanged = {file.url for split in keep for file in split.inputs}
    read = tuple(file for file in current.values() if file.url not in unchanged)
    dropped = {reason: tuple(splits) for reason, splits in drop.items()}
    return Plan(keep=tuple(keep), drop=dropped, read=read)


def _check_stays(
    gone: Sequence[str],
    changed: Sequence[str],
    is_same_selection: bool,  # noqa: FBT001
    keep_removed_inputs: bool,  # noqa: FBT001
) -> None:
    """Raise RetainedOutputError if the output of files that are gone cannot stay."""
    if not keep_removed_inputs:
        raise RetainedOutputError(
            f"contains the results of {_and_more(gone)}, which --keep-removed-inputs has retained;"
            " repeat the option, or use another --out"
        )
    if not is_same_selection:
        raise RetainedOutputError(
            f"contains the results of {_and_more(gone)}, which is gone, for another --api,"
            " --client, --from or --until; repeat these, or use another --out"
        )
    if changed:
        raise RetainedOutputError(
            f"{changed[0]} changed, and its results are in the same files as those of"
            f" {_and_more(gone)}, which is gone; use another --out"
        )


def _and_more(names: Sequence[str]) -> str:
    return f"{names[0]} and {len(names) - 1:,} more" if len(names) > 1 else names[0]


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


def _split_decoder(fields: dict[str, Any]) -> None:
    """Convert the fields of a manifest whose decoder is a text such as "9.2.0 [[], ...]"."""
    version, _, fields["selection"] = fields.pop("decoder").partition(" ")
    for split in fields[_STORED_NAMES["splits"]]:
        split["decoder"] = f"kafkalite {version}"


def _parse_split(fields: dict[str, Any]) -> InputSplit:
    inputs = tuple(_parse_input(**file) for file in fields.pop("inputs"))
    others: dict[str, Any] = {
        _FIELDS.get(name, name): tuple(value) if isinstance(value, list) else value
        for name, value in fields.items()
    }
    return InputSplit(inputs=inputs, **others)


def _parse_input(url: str, **fields: int) -> InputFile:
    # An earlier version stored the paths of files as they were given.
    return InputFile(url=url if "://" in url else without_parent_steps(url), **fields)
