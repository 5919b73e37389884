"""The page of vendor profiles: every row with its source."""

from __future__ import annotations

from kafkalite.config.profiles import PROFILES, Kind, Profile, Row, SourceKind
from tests.reference.markdown import code, page, table

_INTRODUCTION = """\
`--as-version` and `Broker(as_version=…)` take these names. A profile is a release of Kafka and the
rows below. Each row has a source; what no source says is as in the release.
[Emulate a Kafka service](../how-to/vendor-profiles.md) shows how to use them."""

_KINDS = (
    (
        Kind.API,
        (
            "The versions of an API that the service advertises. kafkalite advertises and serves "
            "those of them that it implements. `*` stands for all other APIs."
        ),
    ),
    (Kind.DEFAULT, "The default of a broker setting. `--config` has precedence."),
    (
        Kind.SETTING,
        (
            "Whether clients may set a topic setting, and its bounds. `ignored`: accepted without "
            "effect. `*` stands for all other settings."
        ),
    ),
    (
        Kind.LIMIT,
        (
            "A limit for requests of clients. Topics and settings from the command line or from "
            "the broker itself are not limited."
        ),
    ),
    (Kind.REFUSED, "A call that gets this error; `BROKER`: for the settings of brokers."),
)

_SOURCES = """\
A source is a page of the vendor's documentation, source code of the vendor (C), or an answer of the
service that was published (A). If a source names no error, kafkalite answers POLICY_VIOLATION,
Kafka's error of a policy for topics, or the error that Kafka has for the same reason, such as
INVALID_GROUP_ID."""

_MARKS = {SourceKind.DOCUMENTATION: "", SourceKind.CODE: " (C)", SourceKind.ANSWER: " (A)"}


def vendor_profiles_page() -> str:
    """Return the page with all rows of all profiles."""
    return page(
        "Vendor profiles",
        _INTRODUCTION,
        "## Kinds of rows",
        table(("Kind", "Meaning"), [(kind.value, meaning) for kind, meaning in _KINDS]),
        _SOURCES,
        *(part for profile in PROFILES.values() for part in _profile(profile)),
    )


def _profile(profile: Profile) -> tuple[str, ...]:
    return (
        f"## {profile.name}",
        f"{profile.service}. Otherwise as Kafka {profile.base}.",
        table(
            ("Kind", "Subject", "Value", "Error", "Source"),
            [_row(row) for kind in Kind for row in profile.of_kind(kind)],
        ),
    )


def _row(row: Row) -> tuple[str, ...]:
    source = f"[{row.source.title}]({row.source.url}){_MARKS[row.source.kind]}"
    error = f"{row.error}: “{row.message}”" if row.message else row.error
    return (row.kind.value, code(row.subject), row.value, error, source)
