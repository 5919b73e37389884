"""The notation of the spec files."""

import pytest

from kafkalite.protocol.spec import MessageSpec, load_spec, load_specs, parse_spec, snake_case
from kafkalite.protocol.versions import Versions

TEXT = """\
# An example.
request ExampleRequest
api-key 7
versions 1-5
unstable 5
flexible 3+

Name: string(topicName) 0+ nullable 2+ ignorable = null  # The name.
Rows: []Row 0+  # The rows: any number.
  Index: int32 0-4 = -1
  Shared: Both 4+ tag 1 4+
from: int8 0+

struct Both 0+
  Id: uuid 0+ flexible none
"""


@pytest.fixture
def spec() -> MessageSpec:
    return parse_spec(TEXT)


def test_spec_has_the_properties_of_its_header(spec: MessageSpec) -> None:
    assert (spec.comment, spec.kind, spec.name, spec.key) == (
        "An example.",
        "request",
        "ExampleRequest",
        7,
    )
    assert spec.stem == "example"
    assert spec.versions == Versions(1, 5)
    assert spec.stable == Versions(1, 4)
    assert [version for version in range(1, 6) if spec.is_flexible(version)] == [3, 4, 5]


def test_fields_have_their_traits(spec: MessageSpec) -> None:
    name, rows, from_ = spec.fields
    assert (name.type, name.entity, name.default, name.ignorable) == (
        "string",
        "topicName",
        "null",
        True,
    )
    assert name.nullable == Versions(2)
    assert (rows.type, rows.is_array) == ("Row", True)
    assert from_.attribute == "from_"
    assert [field.about for field in spec.fields] == ["The name.", "The rows: any number.", ""]


def test_inner_and_shared_structs_have_their_fields(spec: MessageSpec) -> None:
    index, shared = spec.structs["Row"].fields
    assert (index.versions, index.default) == (Versions(0, 4), "-1")
    assert (shared.tag, shared.tagged) == (1, Versions(4))
    assert spec.structs["Both"].fields[0].never_flexible


@pytest.mark.parametrize(
    "line",
    ["Name string 0+", "Name: string", "   Name: string 0+", "Name: string 0+ nonsense", "struct"],
)
def test_invalid_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_spec(f"request XRequest\nversions 0\n{line}\n")


def test_repeated_struct_is_refused() -> None:
    with pytest.raises(ValueError, match="defined twice"):
        parse_spec("data X\nversions 0\nstruct A 0+\n  B: int8 0+\nstruct A 0+\n  B: int8 0+\n")


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("GenerationIdOrMemberEpoch", "generation_id_or_member_epoch"),
        ("ISRNodes", "isr_nodes"),
        ("group", "group"),
        ("leaderEpoch", "leader_epoch"),
        ("KRaftVersion", "k_raft_version"),
    ],
)
def test_names_are_converted_to_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


def test_every_spec_has_a_comment() -> None:
    for spec in load_specs():
        assert spec.comment.endswith("."), spec.name


def test_spec_is_loaded_by_its_name() -> None:
    assert load_spec("apis", "produce_request").key == 0
