"""A refused frame, walked again by its Construct tree to say where and why.

Generated codecs say that a frame is wrong and no more, which keeps them fast. The spec file of
that one message is read here, after the fact, for the line in the log.
"""

from __future__ import annotations

from io import BytesIO
from typing import Literal

from construct import ConstructError, StreamError

from kafkalite.protocol.codec import api_name
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.protocol.primitives import KafkaStruct, Trace
from kafkalite.protocol.schema import message_tree
from kafkalite.protocol.spec import load_spec, snake_case

Direction = Literal["request", "response"]


def explain(direction: Direction, api_key: int, version: int, body: bytes) -> str:
    """Say in one line what is wrong with a body, and at which byte of which field.

    Raises KeyError for an API, ValueError for a version that does not exist.
    """
    name = api_name(api_key)
    spec = load_spec("apis", f"{snake_case(name)}_{direction}")
    found = _walk(message_tree(spec, version), body)
    return f"{name} {direction} v{version}: {found}"


def _walk(tree: KafkaStruct, body: bytes) -> str:
    stream = BytesIO(body)
    trace = Trace()
    try:
        tree._parse(stream, trace, "")  # noqa: SLF001 - the way in that takes a context as it is
    except ProtocolViolation as violation:
        reason = violation.reason
    except StreamError:
        reason = f"the frame ends, {len(body) - trace.offset} bytes into it"
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error.reason}"
    except ConstructError as error:  # pragma: no cover - no construct of ours raises another
        reason = str(error).partition("\n")[0]
    else:
        left = len(body) - stream.tell()
        return f"bytes left over at byte {stream.tell()}: {left}" if left else "nothing is wrong"
    return f"{trace.path.removeprefix('.') or 'message'} at byte {trace.offset}: {reason}"
