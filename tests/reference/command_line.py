"""The page about the command line, from Typer."""

from collections.abc import Iterator
from enum import Enum
from pathlib import PurePath
from typing import Any

import typer

from lamplighter_cli.app import app
from tests.reference.markdown import Page, code, paragraphs, sentence

_VALUES = {"str": "TEXT", "Path": "PATH", "int": "NUMBER", "float": "NUMBER", "list[str]": "TEXT"}
_NAME = "lamplighter"


def page() -> Page:
    """Return the page."""
    made = Page(
        "Command line", "Every command with its arguments and options. All commands have `--help`."
    )
    root = typer.main.get_command(app)
    made.heading(_NAME)
    made.text("These options stand before the command:")
    made.block("text", f"{_NAME} [OPTIONS] COMMAND")
    _parameters(made, root)
    for name, command in commands(root):
        made.heading(name)
        made.text(paragraphs(str(command.help)))
        made.block("text", _usage(name, command))
        _parameters(made, command)
    return made


def commands(group: Any, name: str = _NAME) -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that call it."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")
        elif not command.hidden:
            yield f"{name} {word}", command


def _usage(name: str, command: Any) -> str:
    words = [name, "[OPTIONS]"] if any(map(_is_option, command.params)) else [name]
    for each in command.params:
        if not _is_option(each):
            word = _word(each) + ("..." if each.nargs != 1 else "")
            words.append(word if each.required else f"[{word}]")
    return " ".join(words)


def _parameters(made: Page, command: Any) -> None:
    shown = [each for each in command.params if not each.hidden]
    made.table(
        ("argument or option", "default", "meaning"),
        ((code(_spelling(each)), _default(each), _meaning(each)) for each in shown),
    )


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _word(parameter: Any) -> str:
    kind = parameter.type_descriptor.annotation
    name = getattr(kind, "__name__", str(kind)) if kind != list[str] else "list[str]"
    return str(parameter.metavar or _VALUES.get(name, parameter.name.upper()))


def _spelling(parameter: Any) -> str:
    if not _is_option(parameter):
        return _word(parameter)
    names = ", ".join((*parameter.opts, *parameter.secondary_opts))
    return names if parameter.is_flag else f"{names} {_word(parameter)}"


def _default(parameter: Any) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if value is None or value in ("", False, (), []) or callable(value):
        return ""
    if isinstance(value, Enum):
        value = value.value
    return code(value.as_posix() if isinstance(value, PurePath) else str(value))


def _meaning(parameter: Any) -> str:
    said = [sentence(str(parameter.help or ""))]
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        said.append(f"One of {', '.join(code(str(each.value)) for each in kind)}.")
    if parameter.min is not None or parameter.max is not None:
        least = "" if parameter.min is None else f"at least {parameter.min}"
        most = "" if parameter.max is None else f"at most {parameter.max}"
        said.append(f"{', '.join(filter(None, (least, most))).capitalize()}.")
    if parameter.multiple and "repeat" not in said[0]:
        said.append("Repeatable.")
    if parameter.envvar:
        names = [parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar
        said.append(f"Variable: {', '.join(map(code, names))}.")
    return " ".join(filter(None, said))
