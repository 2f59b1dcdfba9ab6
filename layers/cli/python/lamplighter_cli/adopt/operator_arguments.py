"""What the arguments of an operator say, as far as the file says it by itself."""

import ast
import re
import shlex
from pathlib import Path

from lamplighter_cli.adopt.context_use import CannotMoveError
from lamplighter_cli.adopt.translator import Translator

# What every Linux has; the function `task` has no other programs.
_SHELL = frozenset(
    {
        "set",
        "export",
        "unset",
        ":",
        "echo",
        "printf",
        "sleep",
        "true",
        "false",
        "exit",
        "date",
        "test",
        "[",
        "cd",
        "mkdir",
        "rm",
    }
    | {"cat", "ls", "env", "pwd", "touch", "cp", "mv", "head", "tail", "sort", "wc", "cut"}
)


def is_mapped(call: ast.Call) -> bool:
    """Return whether a call makes a task for each of several items."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in {"expand", "expand_kwargs"}


def keywords_of(call: ast.Call) -> list[ast.keyword]:
    """Return the keywords of a call, or of the `partial` in front of its `expand`."""
    if not is_mapped(call):
        return call.keywords
    assert isinstance(call.func, ast.Attribute)
    inner = call.func.value
    return inner.keywords if isinstance(inner, ast.Call) else []


def elements_of(translator: Translator, node: ast.expr | None) -> list[ast.expr]:
    """Return the elements of a literal list."""
    node = translator.constants.node(node)
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return []
    if isinstance(node, ast.List | ast.Tuple):
        if any(isinstance(each, ast.Starred) for each in node.elts):
            raise CannotMoveError("its op_args are only known when the file runs")
        return list(node.elts)
    raise CannotMoveError("its op_args are only known when the file runs")


def entries_of(translator: Translator, node: ast.expr | None) -> dict[str, ast.expr]:
    """Return the entries of a literal mapping."""
    node = translator.constants.node(node)
    match node:
        case None | ast.Constant(value=None):
            return {}
        case ast.Dict(keys=keys, values=values):
            names = [translator.constants.text(key) for key in keys]
            if all(name is not None for name in names):
                return {str(name): value for name, value in zip(names, values, strict=True)}
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            if all(each.arg for each in keywords):
                return {str(each.arg): each.value for each in keywords}
    raise CannotMoveError("a mapping of its arguments is only known when the file runs")


def keys_of(translator: Translator, node: ast.expr) -> list[str]:
    """Return the keys of a literal mapping; none if it is not one."""
    try:
        return list(entries_of(translator, node))
    except CannotMoveError:
        return []


def is_plain_shell(command: str) -> bool:
    """Return whether a command needs only what every Linux has."""
    if re.search(r"`|\$\(|<\(|\{%", command):
        return False
    try:
        lexer = shlex.shlex(command.replace("\n", ";"), posix=True, punctuation_chars=True)
        words = list(lexer)
    except ValueError:
        return False
    is_first = True
    for word in words:
        if set(word) <= set(";&|()"):
            is_first = True
        elif is_first and "=" not in word:
            if word not in _SHELL:
                return False
            is_first = False
    return bool(words)


def split_words(text: str) -> list[str]:
    """Return the words of a command line."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CannotMoveError(f"its Spark parameters are not understood: {error}") from error


def is_below(path: Path, root: Path) -> bool:
    """Return whether a file is in a folder."""
    return path.resolve().is_relative_to(root.resolve())


def plain_text(text: str) -> str:
    """Return a text that can stand in a docstring."""
    return re.sub(r'["\\]|[^\x20-\x7e]', "", text)
