"""Rules that mask keys, values and fields of JSON in records that `kafkalite export` prints."""

from __future__ import annotations

import hmac
import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from kafkalite.config.typed_json import is_unicode
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.client.records import ConsumerRecord

_FORM: Final = "[TOPIC:]FIELD=drop, [TOPIC:]FIELD=fixed:TEXT or [TOPIC:]FIELD=hash:SEED"
_HASH_DIGITS: Final = 32
_MAX_LISTED_TOPICS: Final = 10
_DROPPED: Final = object()
"""The value of a field that is removed."""


class MaskError(ValueError):
    """A rule that is invalid, or cannot be applied to a record; the text is one sentence."""


class Mask(NamedTuple):
    """A rule: what it masks, and how."""

    text: str
    topic: str
    """A pattern of names of topics."""
    part: str
    """`key`, `value` or `headers`."""
    path: tuple[str, ...]
    """The names of fields of JSON, or the name of a header; empty for the whole part."""
    action: str
    """`drop`, `fixed` or `hash`."""
    argument: str
    """The fixed text or the seed."""

    def masked(self, content: bytes) -> bytes | None:
        """Return bytes without their content; None if they are dropped."""
        if self.action == "drop":
            return None
        return self._text(content).encode()

    def _text(self, content: bytes) -> str:
        if self.action == "fixed":
            return self.argument
        return hmac.digest(self.argument.encode(), content, "sha256").hex()[:_HASH_DIGITS]

    def masked_field(self, value: object) -> object:
        """Return a JSON value without its content, `_DROPPED` if it is dropped."""
        if self.action == "drop":
            return _DROPPED
        text = value if isinstance(value, str) else _json(value)
        return self._text(text.encode(errors="surrogatepass"))


def parse_mask(text: str) -> Mask:
    """Return the rule of a text such as `orders:value.card=hash:seed`; raises MaskError."""
    if not is_unicode(text):
        raise MaskError(f"--mask {text[:80]!r} must be UTF-8")
    left, equals, how = text.partition("=")
    action, colon, argument = how.partition(":")
    topic, has_topic, field = left.rpartition(":")
    part, *path = field.split(".")
    if part == "headers":
        path = [".".join(path)] if path else []
    is_whole = part in {"key", "value"} or (part == "headers" and path)
    has_action = how == "drop" or (action in {"fixed", "hash"} and bool(colon))
    if not equals or not is_whole or not has_action or not all(path) or (has_topic and not topic):
        raise MaskError(
            f"--mask {text[:80]!r} must be {_FORM}; a FIELD is key, value, headers.NAME, or a "
            "field of JSON such as value.card.number"
        )
    if action == "hash" and not argument:
        raise MaskError(f"--mask {text[:80]!r} needs a seed: write hash:SEED")
    return Mask(text, topic or "*", part, tuple(path), action, argument)


def check_topics(masks: Sequence[Mask], topics: Sequence[str]) -> None:
    """Raise MaskError for a rule that names a topic that does not exist.

    The records that a misspelled name means would be printed unmasked.
    """
    for mask in masks:
        if not any(fnmatchcase(topic, mask.topic) for topic in topics) and mask.topic != "*":
            known = ", ".join(sorted(topics)[:_MAX_LISTED_TOPICS]) or "none"
            raise MaskError(
                f"--mask {mask.text[:80]!r}: there is no topic {mask.topic[:80]!r}; the topics are "
                f"{known}"
            )


def masked(record: ConsumerRecord, masks: Sequence[Mask]) -> ConsumerRecord:
    """Return a record after the rules for its topic, in their order.

    Raises MaskError if a field is masked, but the key or value is no JSON.
    """
    for mask in masks:
        if not fnmatchcase(record.partition.topic, mask.topic):
            continue
        if mask.part == "headers":
            record = record._replace(headers=_masked_headers(record, mask))
            continue
        content = getattr(record, mask.part)
        if content is not None:
            changed = _masked_json(record, mask, content) if mask.path else mask.masked(content)
            record = (
                record._replace(key=changed)
                if mask.part == "key"
                else record._replace(value=changed)
            )
    return record


def _masked_headers(record: ConsumerRecord, mask: Mask) -> tuple[tuple[str, bytes | None], ...]:
    (name,) = mask.path
    if mask.action == "drop":
        return tuple(each for each in record.headers if each[0] != name)
    return tuple(
        (key, content if key != name or content is None else mask.masked(content))
        for key, content in record.headers
    )


def _masked_json(record: ConsumerRecord, mask: Mask, content: bytes) -> bytes:
    try:
        return _json(_replaced(json.loads(content), mask.path, mask.masked_field)).encode(
            errors="surrogatepass"
        )
    except (ValueError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else "no JSON"
        raise MaskError(
            f"--mask {mask.text[:80]!r}: the {mask.part} of {record.partition} at offset "
            f"{record.offset} is {reason}; mask the whole {mask.part}"
        ) from None


def _replaced(value: Any, path: Sequence[str], change: Callable[[object], object]) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value with changed fields at a path, in each element of lists on the way."""
    if isinstance(value, list):
        return [_replaced(each, path, change) for each in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    name, *rest = path
    changed = _replaced(value[name], rest, change) if rest else change(value[name])
    if changed is _DROPPED:
        return {key: each for key, each in value.items() if key != name}
    return {**value, name: changed}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
