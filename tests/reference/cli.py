"""The page of the command line: all commands and options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkalite.cli.parsing import all_commands
from kafkalite.config.options import OPTIONS, Option
from tests.reference.markdown import code, page, sentence, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION = """\
`kafkalite COMMAND --help` prints the same texts. `python -m kafkalite` is the same program.
Options cannot be abbreviated. Defaults of `kafkalite serve` have a column; those of the other
commands are in brackets at the end of the text. Errors are printed as one line; the exit status is
1 if the command failed, and 2 if its arguments are invalid. The how-to guides, such as
[Run a broker](../how-to/run.md) and [Capture traffic](../how-to/capture.md), have examples."""

_SERVE = """\
Most options are also arguments of [`kafkalite.testing.Broker`](python-api.md) (column *Python*) and
environment variables of the Docker image (column *Docker*). An empty cell means that there is
none."""

_UNTITLED = ("positional arguments", "options")


def cli_page() -> str:
    """Return the page of the command line."""
    parts = []
    for command in all_commands():
        parser = argparse.ArgumentParser(prog=f"kafkalite {command.name}", add_help=False)
        command.add_options(parser)
        parts += [f"## kafkalite {command.name}", command.about]
        parts += [_SERVE, *_broker_options()] if command.name == "serve" else _arguments(parser)
    return page("Command line", _INTRODUCTION, *parts)


def _broker_options() -> Iterator[str]:
    for section in dict.fromkeys(option.section for option in OPTIONS):
        yield f"### {section}"
        headings = ("Option", "Meaning", "Default", "Python", "Docker")
        rows = [_broker_option(option) for option in OPTIONS if option.section == section]
        yield table(headings, rows)
    yield "### Environment variables of the Docker image"
    yield (
        "An empty variable has no effect. Options after the image's name take precedence. Without "
        "`KAFKALITE_LISTEN` and `KAFKALITE_ADVERTISE` the broker listens on port 9092 for the host "
        "and on port 29092 for other containers."
    )
    yield table(
        ("Variable", "Example", "Option"),
        [
            (code(option.variable.name), code(option.variable.example), code(option.flag or ""))
            for option in OPTIONS
            if option.variable is not None
        ],
    )
    yield "### Options of the pytest plugin"
    yield (
        "These options configure the brokers of the fixtures [`kafkalite` and "
        "`kafkalite_session`](../how-to/pytest.md#fixtures). Their values are those of the options "
        "of `kafkalite serve` with the same name."
    )
    yield table(
        ("Option", "Argument of `Broker`"),
        [
            (code(f"--kafkalite-{option.name}"), code(option.keyword.name))
            for option in OPTIONS
            if option.keyword is not None and option.keyword.is_for_fixtures
        ],
    )


def _broker_option(option: Option) -> tuple[str, ...]:
    value = option.metavar or "|".join(option.choices)
    if option.implied is not None:
        value = f"[{value}]"
    flag = "" if option.flag is None else f"{option.flag} {value}".strip()
    keyword, variable = option.keyword, option.variable
    return (
        code(flag),
        _escaped(sentence(option.help)),
        _escaped(option.default_text),
        "" if keyword is None else code(f"{keyword.name}={keyword.default!r}"),
        "" if variable is None else code(variable.name),
    )


def _arguments(parser: argparse.ArgumentParser, level: str = "###") -> Iterator[str]:
    groups: dict[str, list[tuple[str, str]]] = {}
    for group in parser._action_groups:
        title = group.title or ""
        rows = groups.setdefault("" if title in _UNTITLED else title, [])
        for action in group._group_actions:
            if action.help != argparse.SUPPRESS and not isinstance(
                action, argparse._SubParsersAction | argparse._HelpAction
            ):
                text = parser._get_formatter()._expand_help(action)
                rows.append((code(_name(action)), _escaped(sentence(text))))
    for title, rows in groups.items():
        if title and rows:
            yield f"{level} {sentence(title).rstrip('.')}"
        if rows:
            yield table(("Argument", "Meaning and default"), rows)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                nested = action.choices[choice.dest]
                yield f"{level} {parser.prog} {choice.dest}"
                yield choice.help or ""
                yield from _arguments(nested, f"{level}#")


def _name(action: argparse.Action) -> str:
    if action.nargs == 0:
        return action.option_strings[-1]
    value = action.metavar or "|".join(map(str, action.choices or ()))
    if action.option_strings:
        metavar = f"[{value}]" if action.nargs == "?" else value
        return f"{action.option_strings[-1]} {metavar}"
    return {"?": f"[{value}]", "+": f"{value}…"}.get(str(action.nargs), str(value))


def _escaped(text: str) -> str:
    """Return text with brackets that Markdown does not read as a link."""
    return text.replace("[", "\\[").replace("]", "\\]").replace("*", "\\*")
