"""What goes on in a later batch is left over for it, whoever takes that batch."""

from __future__ import annotations

import os
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.columnar.growing import GrowingFile
from kafkalite.columnar.options import EVERYTHING, Options
from kafkalite.spark.following import Decoding, Subject, follow
from kafkalite.spark.journal import alone
from kafkalite.spark.places import PlaceError, place
from kafkalite.spark.sources.growing import Stretch
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafkalite.spark.requests import Requests

pytestmark = pytest.mark.spark

Answer = tuple[int, int, bool]


class Batches:
    """Batches of one capture, each taken by a process of its own."""

    def __init__(self, spark: SparkSession, out: Path) -> None:
        self._spark = spark
        self._out = out
        self.found: dict[int, list[Answer]] = {}
        self.pending: dict[int, dict[int, int]] = {}

    def take(self, number: int, *pieces: Stretch) -> None:
        self._decoding().take(self._spark, pieces, number)

    def finish(self) -> None:
        self._decoding().finish()

    def all(self) -> list[Answer]:
        return sorted(row for rows in self.found.values() for row in rows)

    def _decoding(self) -> Decoding:
        def each(
            requests: Requests,
            number: int,
            pending_us: Mapping[int, int],
            is_last: bool,  # noqa: ARG001, FBT001
        ) -> None:
            rows = requests.envelopes().select("connection", "correlation_id", "answered").collect()
            self.found[number] = [(row[0], row[1], row[2] is not None) for row in rows]
            self.pending[number] = dict(pending_us)

        return Decoding(self._spark, Subject(inputs=(), out=place(str(self._out))), each)


@pytest.fixture
def capture(tmp_path: Path) -> tuple[Path, ...]:
    made = write(tmp_path / "captures", 60_000, connections=3, file_bytes=40_000)
    assert len(made.files) > 1
    return made.files[:2]


def test_a_request_is_handed_on_with_its_answer_whichever_batch_that_comes_in(
    spark: SparkSession, tmp_path: Path, capture: tuple[Path, ...]
) -> None:
    sizes = [path.stat().st_size for path in capture]
    first, second = map(str, capture)
    at_once = Batches(spark, tmp_path / "at-once")
    at_once.take(0, Stretch(first, 0, None, sizes[0]), Stretch(second, 0, None, sizes[1]))
    at_once.finish()

    cut = sizes[0] // 2 + 7
    followed = Batches(spark, tmp_path / "followed")
    followed.take(0, Stretch(first, 0, cut, cut))
    followed.take(1, Stretch(first, cut, None, sizes[0] - cut), Stretch(second, 0, 9_000, 9_000))
    followed.take(1, Stretch(first, cut, None, sizes[0] - cut), Stretch(second, 0, 9_000, 9_000))
    followed.take(2, Stretch(second, 9_000, None, sizes[1] - 9_000))
    followed.finish()
    assert len(followed.all()) > 100
    assert followed.all() == at_once.all()
    assert all(followed.found[number] for number in range(3))


def test_requests_that_wait_are_known_by_their_age_and_handed_on_in_the_end(
    spark: SparkSession, tmp_path: Path, capture: tuple[Path, ...]
) -> None:
    path, data = str(capture[0]), capture[0].read_bytes()
    waits = next(
        size for size in range(2_000, len(data), 50) if _open(path, data[:size], tmp_path / "grown")
    )
    followed = Batches(spark, tmp_path / "followed")
    grown = tmp_path / "grown"
    followed.take(0, Stretch(str(grown), 0, waits, waits))
    assert followed.pending[0]
    followed.finish()
    assert [answered for *_, answered in followed.found[1]].count(False) >= 1


def _open(path: str, data: bytes, grown: Path) -> bool:
    grown.write_bytes(data)
    file = GrowingFile(path, EVERYTHING)
    for _ in file.read(BytesIO(data), len(data)):
        pass
    return bool(file.open_since())


def test_a_file_that_has_less_than_was_read_of_it_is_told(
    spark: SparkSession, tmp_path: Path, capture: tuple[Path, ...]
) -> None:
    path, size = capture[0], capture[0].stat().st_size
    decoding = Decoding(
        spark, Subject(inputs=(), out=place(str(tmp_path / "followed"))), lambda *_: None
    )
    torn = size // 2 + 7
    decoding.take(spark, [Stretch(str(path), 0, torn, torn)], 0)
    # A recorder with a full disk takes back the block that it could not finish.
    whole = decoding.growing[str(path)].position
    assert whole < torn
    os.truncate(path, whole)
    assert not decoding.shrunk()
    os.truncate(path, whole - 1)
    assert f"has {whole - 1:,} bytes, but {whole:,} were read" in decoding.shrunk()
    path.unlink()
    assert not decoding.shrunk()


def test_who_follows_into_a_place_does_so_alone(tmp_path: Path) -> None:
    out = place(str(tmp_path))
    nobodys = cast("SparkSession", None)
    with alone(out), pytest.raises(PlaceError, match="another run is writing there"):
        follow(nobodys, Subject(inputs=[str(tmp_path)], out=out), lambda *_: None)


def test_what_is_followed_elsewhere_or_otherwise_is_told(tmp_path: Path) -> None:
    out = place(str(tmp_path))
    nobodys = cast("SparkSession", None)

    def refused(subject: Subject) -> str:
        with pytest.raises(PlaceError) as error:
            follow(nobodys, subject, lambda *_: None)
        return str(error.value)

    subject = Subject(inputs=[str(tmp_path / "in")], out=out)
    with pytest.raises(AttributeError):  # it goes as far as Spark
        follow(nobodys, subject, lambda *_: None)
    assert "inputs" in refused(replace(subject, inputs=[str(tmp_path / "other")]))
    assert "clients" in refused(replace(subject, options=Options(clients="a*")))
    noted = out / "_kafkalite/followed.json"
    noted.write_text("{")
    assert "followed.json" in refused(subject)
    noted.delete()
    (out / "_kafkalite/checkpoint/metadata").write_text("{}")
    assert "layout" in refused(subject)
