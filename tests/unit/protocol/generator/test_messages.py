"""Generated message classes."""

import ast
from inspect import cleandoc
from itertools import pairwise

from kafkalite.protocol.generator.messages import render_module
from kafkalite.protocol.spec import parse_spec

TEXT = """\
# An example.
response ExampleResponse
api-key 7
versions 1-3
flexible none

Gone: int8 0
from: int32 0+ = -1
Names: []string 0+ nullable 0+ = null  # The names.
Rows: []Row 0+  # The rows.
  Id: uuid 2+ tag 0 2+  # The ID of the row.
Inner: Inner 2+
  X: bool 2+
"""


def test_one_class_with_its_structs_inside() -> None:
    text = render_module([parse_spec(TEXT)])
    names: dict[str, object] = {}
    exec(text, names)  # noqa: S102 - the text is ours
    example: type = names["ExampleResponse"]  # type: ignore[assignment]
    message = example()
    assert message.__slots__ == ("from_", "names", "rows", "inner", "unknown_tags")
    assert (message.from_, message.names, message.rows) == (-1, None, [])
    assert message.inner.x is False
    assert example(names=["a"]).names == ["a"]
    assert (example.API_KEY, str(example.versions)) == (7, "1-3")  # type: ignore[attr-defined]


def test_every_class_has_a_docstring() -> None:
    module = ast.parse(render_module([parse_spec(TEXT)]))
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    assert len(classes) == 3
    assert all(ast.get_docstring(node) for node in classes)


def test_generated_classes_have_types_and_descriptions() -> None:
    module = ast.parse(render_module([parse_spec(TEXT)]))
    (example,) = (node for node in module.body if isinstance(node, ast.ClassDef))
    assert ast.get_docstring(example) == "An example.\n\nResponse 7, versions 1-3."
    (row,) = (
        node for node in example.body if isinstance(node, ast.ClassDef) and node.name == "Row"
    )
    assert ast.get_docstring(row) == "The rows.\n\nStruct of ExampleResponse, versions 0+."
    assert described_fields(example)["names"] == (
        "list[str] | None",
        "The names.\n\nVersions 0+, None allowed in versions 0+, default None.",
    )
    assert described_fields(row) == {
        "id": ("Uuid", "The ID of the row.\n\nVersions 2+, tag 0 in versions 2+.")
    }


def described_fields(node: ast.ClassDef) -> dict[str, tuple[str, str]]:
    """Return the type and the description of each field, by its name."""
    return {
        ast.unparse(field.target): (
            ast.unparse(field.annotation),
            cleandoc(ast.literal_eval(ast.unparse(text.value))),
        )
        for field, text in pairwise(node.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
