"""IntEnum: `enum.IntEnum` whose classes are created in a fraction of the time.

`enum` takes as long for each member as for a hundred calls of a function, and error codes and keys
of APIs have 230 members, a twelfth of the time of a start. Here `enum` makes the class with its
first member, and the others are copies of that member with their own names and values. Type
checkers see `enum.IntEnum`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enum import IntEnum as IntEnum  # noqa: PLC0414 - exported
    from typing import Any
else:
    import enum

    class _Type(enum.EnumType):
        """Creates classes whose members are numbers with names in capitals."""

        @classmethod
        def __prepare__(cls, name: str, bases: tuple[type, ...]) -> dict[str, Any]:
            return {}

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _Type:
            numbers = {key: value for key, value in namespace.items() if type(value) is int}
            is_simple = len(set(numbers.values())) == len(numbers)
            is_simple = is_simple and all(key.isupper() and key[0] != "_" for key in numbers)
            first = next(iter(numbers), None)
            official = super().__prepare__(name, bases)
            for key, value in namespace.items():
                if not is_simple or key == first or key not in numbers:
                    official[key] = value
            created = super().__new__(cls, name, bases, official)
            if is_simple and first is not None:
                _add_members(created, first, numbers)
            return created

    def _add_members(created: _Type, first: str, numbers: dict[str, int]) -> None:
        template = vars(created[first])
        hashable = getattr(created, "_hashable_values_", None)  # since Python 3.13
        for order, (key, value) in enumerate(numbers.items()):
            if key == first:
                continue
            member = int.__new__(created, value)
            vars(member).update(template, _value_=value, _name_=key, _sort_order_=order)
            type.__setattr__(created, key, member)
            created._member_names_.append(key)
            created._member_map_[key] = member
            created._value2member_map_[value] = member
            if hashable is not None:
                hashable.append(value)

    class IntEnum(enum.IntEnum, metaclass=_Type):
        """As `enum.IntEnum`."""
