"""Descriptions of invalid frames for the log: the invalid byte, its field and the reason.

To be fast, generated codecs report only that a frame is invalid. This module then reads the spec
file of that message and parses the frame again with its Construct tree.
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


def describe_error(direction: Direction, api_key: int, version: int, body: bytes) -> str:
    """Return one line with the error in a body: the byte, its field and the reason.

    Raises KeyError for an unknown API, ValueError for an unknown version.
    """
    name = api_name(api_key)
    spec = load_spec("apis", f"{snake_case(name)}_{direction}")
    error_text = _find_error(message_tree(spec, version), body)
    return f"{name} {direction} v{version}: {error_text}"


def _find_error(tree: KafkaStruct, body: bytes) -> str:
    stream = BytesIO(body)
    trace = Trace()
    try:
        tree._parse(stream, trace, "")  # noqa: SLF001 - `parse` would replace the context
    except ProtocolViolation as violation:
        reason = violation.reason
    except StreamError:
        reason = f"the frame ends after {len(body) - trace.offset} bytes of this field"
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error.reason}"
    except ConstructError as error:  # pragma: no cover - the constructs raise no others
        reason = str(error).partition("\n")[0]
    else:
        remaining = len(body) - stream.tell()
        return (
            f"extra bytes at byte {stream.tell()}: {remaining}" if remaining else "no error found"
        )
    return f"{trace.path.removeprefix('.') or 'message'} at byte {trace.offset}: {reason}"
