"""NamedTuple: `typing.NamedTuple` whose classes are created in a fraction of the time.

`typing.NamedTuple` compiles the annotation of each field and a constructor for each class, which
took a quarter of the time of a start. Here annotations remain texts, and a class gets a compiled
constructor when it has been called often: to compile one takes as long as a hundred calls. Type
checkers see `typing.NamedTuple`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Self
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - exported
else:
    from _collections import _tuplegetter
    from collections import namedtuple

    _CALLS_WITHOUT_CONSTRUCTOR = 50
    _calls: dict[type, int] = {}

    class _Signature:
        """The signature of a class, for `help` and `inspect`."""

        def __get__(self, instance: object, owner: type[_Base]) -> object:
            from inspect import signature  # noqa: PLC0415 - rarely used

            found = signature(_constructor(owner))
            return found.replace(parameters=list(found.parameters.values())[1:])

    class _Base(tuple):
        """The methods that are equal in all classes; see `collections.namedtuple`."""

        __slots__ = ()
        __signature__ = _Signature()

        def __new__(cls, /, *args: object, **values: object) -> Self:
            owner = next(each for each in cls.__mro__ if "_field_defaults" in vars(each))
            calls = _calls[owner] = _calls.get(owner, 0) + 1
            if calls <= _CALLS_WITHOUT_CONSTRUCTOR:
                fields = owner._fields
                given = dict(zip(fields, args), **values)  # noqa: B905 - as many as there are
                elements = owner._field_defaults | given
                # Otherwise an argument is missing, unknown, or given twice.
                if len(given) == len(args) + len(values) and elements.keys() == set(fields):
                    return tuple.__new__(cls, map(elements.__getitem__, fields))
            owner.__new__ = staticmethod(_constructor(owner))
            return cls.__new__(cls, *args, **values)

        @classmethod
        def _make(cls, iterable: Iterable[object]) -> Self:
            made = tuple.__new__(cls, iterable)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes: object) -> Self:
            replaced = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"Got unexpected field names: {list(changes)!r}")
            return replaced

        def _asdict(self) -> dict[str, object]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            values = zip(self._fields, self, strict=True)
            text = ", ".join(f"{name}={value!r}" for name, value in values)
            return f"{self.__class__.__name__}({text})"

        def __getnewargs__(self) -> tuple[object, ...]:
            return tuple(self)

    def _constructor(owner: type[_Base]) -> Callable[..., Any]:
        defaults = owner._field_defaults.values()
        return namedtuple(owner.__name__, owner._fields, defaults=defaults).__new__  # noqa: PYI024

    class _Meta(type):
        """Creates subclasses of `_Base` in place of subclasses of NamedTuple."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            annotations = namespace.get("__annotations__", ())
            fields = tuple(annotations)
            defaults = {each: namespace[each] for each in fields if each in namespace}
            if fields[len(fields) - len(defaults) :] != tuple(defaults):
                raise TypeError(f"a field without a default follows one with a default in {name}")
            getters = {each: _tuplegetter(at, None) for at, each in enumerate(fields)}
            attributes = {
                **namespace,
                **getters,
                "__slots__": (),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": defaults,
            }
            bases = tuple(_Base if base is NamedTuple else base for base in bases)
            return type(name, bases, attributes)

    NamedTuple = type.__new__(_Meta, "NamedTuple", (), {})
