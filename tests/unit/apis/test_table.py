"""The table of APIs: complete, without duplicates, with refusals in every version."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, get_type_hints

import pytest

import kafkalite.apis
from kafkalite.apis.table import TABLE, find_api
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kafkalite.gateway.api import Api

APIS = {key: api for key in TABLE if (api := find_api(key)) is not None}

# API keys that must be served, with the lowest and the highest version.
REQUIRED_VERSIONS = {
    0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (1, 10), 9: (1, 10), 10: (0, 6),
    11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 5),
    19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4),
    24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 6), 29: (1, 3), 30: (1, 3),
    31: (1, 3), 32: (1, 4), 33: (0, 2),
    34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3),
    38: (1, 3), 39: (1, 2), 40: (1, 2), 41: (1, 3), 42: (0, 3), 43: (0, 2), 44: (0, 1),
    45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0), 51: (0, 0),
    55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0), 66: (0, 2),
    68: (0, 1), 69: (0, 1),
    71: (0, 0), 72: (0, 0), 74: (0, 1), 75: (0, 0), 76: (1, 1), 77: (1, 1), 78: (1, 2),
    79: (1, 2), 80: (0, 1), 81: (0, 0), 83: (0, 0), 84: (0, 0), 85: (0, 1), 86: (0, 0),
    87: (0, 1), 88: (0, 1), 89: (0, 1), 90: (0, 1), 91: (0, 0), 92: (0, 0), 93: (0, 0),
    94: (0, 0),
}  # fmt: skip


@pytest.mark.parametrize("key", TABLE)
def test_a_row_agrees_with_its_module(key: int) -> None:
    row, api = TABLE[key], APIS[key]
    assert (api.key, api.name) == (key, row.name)
    assert (api.versions.lowest, api.versions.highest) == (row.lowest, row.highest)


@pytest.mark.parametrize("module", sorted({row.module for row in TABLE.values()}))
def test_every_api_of_a_module_is_in_the_table(module: str) -> None:
    served = [api.key for api in import_module(f"kafkalite.apis.{module}").APIS]
    assert sorted(served) == [key for key, row in TABLE.items() if row.module == module]


def test_every_module_with_apis_is_in_the_table() -> None:
    prefix = "kafkalite.apis."
    families = {
        found.name.removeprefix(prefix)
        for found in walk_packages(kafkalite.apis.__path__, prefix)
        if hasattr(import_module(found.name), "APIS")
    }
    assert families == {row.module for row in TABLE.values()}


def test_a_start_imports_no_handlers() -> None:
    """Importing them would double the time of a start."""
    program = (
        "import sys, kafkalite.server.broker\n"
        "from kafkalite.apis.table import TABLE\n"
        "loaded = {f'kafkalite.apis.{row.module}' for row in TABLE.values()} & {*sys.modules}\n"
        "print(*loaded, end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("key", REQUIRED_VERSIONS)
def test_required_versions_are_served(key: int) -> None:
    lowest, highest = REQUIRED_VERSIONS[key]
    versions = APIS[key].versions
    assert versions.lowest <= lowest
    assert versions.highest >= highest


def test_no_other_apis_are_served() -> None:
    assert set(APIS) == set(REQUIRED_VERSIONS)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_pausing_list_is_a_list_in_requests(api: Api) -> None:
    classes = [codec.request_class(api.key)]
    lists = set[str]()
    while classes:
        message = classes.pop()
        annotations = get_type_hints(message.__init__)
        lists.update(name for name, kind in annotations.items() if "list[" in str(kind))
        classes += [each for each in vars(message).values() if isinstance(each, type)]
    assert api.pausing_lists <= lists


def test_few_apis_have_a_refusal_of_their_own() -> None:
    reasons = {
        "AlterClientQuotas": "the answer repeats a list of structs",
        "AlterReplicaLogDirs": "topics are requested by directory, and answered in one list",
        "AlterUserScramCredentials": "users are requested in two lists, and answered once",
        "ApiVersions": "UNSUPPORTED_VERSION has the versions of ApiVersions",
        "CreateDelegationToken": "principals and times have other values than without an error",
        "DeleteGroups": "only one error has a message",
        "Fetch": "rows depend on the error and on the names of topics",
        "Heartbeat": "COORDINATOR_LOAD_IN_PROGRESS is no error",
        "JoinGroup": "the member id is repeated",
        "Metadata": "a topic without a name has an empty one",
        "OffsetFetch": "old versions have the error of a group in each partition",
        "WriteTxnMarkers": "the markers of a producer are answered together",
    }
    assert {api.name for api in APIS.values() if api.refusal is not None} == reasons.keys()


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_refusal_can_be_encoded_in_every_version(api: Api) -> None:
    for version in range(api.versions.lowest, api.versions.highest + 1):
        request = codec.request_class(api.key)()
        if api.lift is not None:
            request = api.lift(request, version)
        answer = api.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, "why")
        if answer is None:
            continue
        if api.lower is not None:
            answer = api.lower(answer, version)
        out: list[bytes | memoryview] = []
        codec.response_builder(api.key, version)(answer, out)
        codec.response_parser(api.key, version)(b"".join(out), 0, len(b"".join(out)))
