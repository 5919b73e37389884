"""Names in responses that only some clients may see: the permissions of the catalogue "if LISTED".

Elements with such names are removed. If a rule has a message for them, the answered row around the
name is replaced by an error.
"""

# ruff: noqa: ANN401 - responses of any API
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalite.protocol.catalogue import When, row, structs_at, values_at
from kafkalite.protocol.message import with_fields
from kafkalite.protocol.rows import refused_row
from kafkalite.security.acls import CLUSTER_NAME
from kafkalite.security.permissions import ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.protocol.acl_operations import Resource
    from kafkalite.protocol.catalogue import Permission
    from kafkalite.security.permissions import Permissions

    Hide = Callable[[Any, Callable[[str], bool]], Any]


def listed_filter(key: int, message: str) -> Callable[[Permissions, Any], Any] | None:
    """Return the function that removes from a response what its client may not see, if any.

    `message` is the error of rows that are replaced; elements are removed if it is empty.
    """
    properties = row(key)
    for alternatives in properties.access:
        for each in alternatives:
            if each.when is When.LISTED:
                sufficient = [other for other in alternatives if other.when is When.ALWAYS]
                fields = properties.response
                places = (properties.listed or getattr(fields, each.resource.name.lower())).split()
                hide: Hide = (
                    partial(_replace_rows, key, each.resource, places, message)
                    if message
                    else partial(_remove_elements, places)
                )
                return partial(_filter, each, sufficient, hide)
    return None


def _filter(
    needed: Permission,
    sufficient: Sequence[Permission],
    hide: Hide,
    permissions: Permissions,
    response: Any,
) -> Any:
    if any(permissions.allows(each.operation, each.resource, CLUSTER_NAME) for each in sufficient):
        return response
    return hide(response, partial(permissions.allows, needed.operation, needed.resource))


def _remove_elements(places: Sequence[str], response: Any, allows: Callable[[str], bool]) -> Any:
    for place in places:
        owner, _, name = place.rpartition(".")
        field = owner.rpartition(".")[2]
        for struct in structs_at(response, owner):
            visible = [each for each in getattr(struct, field) if allows(getattr(each, name))]
            if struct is response:  # which other requests may get as well
                response = with_fields(response, **{field: visible})
            else:
                setattr(struct, field, visible)
    return response


def _replace_rows(  # noqa: PLR0917 - the first four are bound by `listed_filter`
    key: int,
    resource: Resource,
    places: Sequence[str],
    message: str,
    response: Any,
    allows: Callable[[str], bool],
) -> Any:
    rows = row(key).rows
    assert rows is not None
    answered, name = rows.answered, rows.copied[0].rstrip("=")
    inner = [place.removeprefix(f"{answered}.") for place in places]
    visible = [
        each
        if all(allows(found) for place in inner for found in values_at(each, place))
        else refused_row(key, 0, getattr(each, name), ERRORS[resource], message)
        for each in getattr(response, answered)
    ]
    return with_fields(response, **{answered: visible})
