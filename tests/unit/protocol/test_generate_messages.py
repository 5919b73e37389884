"""Classes as the generator writes them."""

import ast

from kafkalite.protocol.generate_messages import render_module
from kafkalite.protocol.spec import parse_spec

TEXT = """\
# Does a thing.
response ThingResponse
api-key 7
versions 1-3
flexible none

Gone: int8 0
from: int32 0+ = -1
Names: []string 0+ nullable 0+
Rows: []Row 0+
  Id: uuid 0+
Inner: Inner 2+
  X: bool 2+
"""


def test_one_class_with_its_structs_inside() -> None:
    text = render_module([parse_spec(TEXT)])
    names: dict[str, object] = {}
    exec(text, names)  # noqa: S102 - the text is ours
    thing: type = names["ThingResponse"]  # type: ignore[assignment]
    message = thing()
    assert message.__slots__ == ("from_", "names", "rows", "inner", "unknown_tags")
    assert (message.from_, message.names, message.rows) == (-1, [], [])
    assert message.inner.x is False
    assert thing(names=None).names is None
    assert (thing.API_KEY, str(thing.versions)) == (7, "1-3")  # type: ignore[attr-defined]


def test_every_class_has_a_docstring() -> None:
    module = ast.parse(render_module([parse_spec(TEXT)]))
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    assert len(classes) == 3
    assert all(ast.get_docstring(node) for node in classes)
