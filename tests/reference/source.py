"""Reads what the code says about itself: docstrings, comments beside fields, types and defaults.

Modules are parsed and not imported, because importing the CDK takes seconds. A meaning is an entry
under `Args:` or `Attributes:` of a docstring, else the comment at the end of the line, else the
comment above it.
"""

import ast
import importlib
import inspect
import re
import tokenize
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTION = re.compile(r"^(Args|Attributes):\n((?:(?:    .*)?(?:\n|$))+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)
_CONSTANT = re.compile(r"_?[A-Z][A-Z_]+")
# Only for linters.
_ASIDE = re.compile(r"\s*(noqa|type: ignore).*")

Node: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Entry:
    """An argument, a field or a method: what a row of a table says."""

    name: str
    type: str = ""
    default: str = ""
    meaning: str = ""


class Module:
    """A module of the project, parsed."""

    def __init__(self, name: str) -> None:
        spec = find_spec(name)
        assert spec is not None, name
        assert spec.origin is not None, name
        self.name = name
        text = Path(spec.origin).read_text(encoding="utf-8")
        self.tree = ast.parse(text)
        # By line: whether the comment stands alone there, and its text.
        self._comments: dict[int, tuple[bool, str]] = {}
        for token in tokenize.generate_tokens(iter(text.splitlines(keepends=True)).__next__):
            if token.type == tokenize.COMMENT:
                said = _ASIDE.sub("", token.string.lstrip("#")).strip()
                self._comments[token.start[0]] = (token.line.lstrip().startswith("#"), said)

    def definition(self, name: str) -> "Definition":
        """Return the class or function of that name."""
        for node in self.tree.body:
            if isinstance(node, Node) and node.name == name:
                return Definition(self, node)
        raise LookupError(f"{self.name} has no {name}")

    def comment_of(self, node: ast.expr | ast.stmt | ast.arg) -> str:
        """Return the comment at the end of a node's line, else the one above it."""
        alone, said = self._comments.get(node.end_lineno or node.lineno, (True, ""))
        if said and not alone:
            return said
        above = []
        line = node.lineno - 1
        while self._comments.get(line, (False, ""))[0]:
            above.append(self._comments[line][1])
            line -= 1
        return " ".join(reversed(above))

    def default(self, node: ast.expr | None) -> str:
        """Return a default as it is written; a constant's value."""
        if node is None:
            return ""
        text = ast.unparse(node)
        if _CONSTANT.fullmatch(text.rpartition(".")[2]):
            value: object = importlib.import_module(self.name)
            for part in text.split("."):
                value = getattr(value, part, text)
            # A mark for "left out" means nothing to a reader.
            text = "…" if type(value) is object or isinstance(value, Enum) else shown(value)
        made = re.fullmatch(r"field\(default_factory=(?:lambda: )?(\w+).*\)", text)
        known = {"dict": "{}", "list": "[]", "set": "set()"}
        text = known.get(made[1], made[1]) if made else text
        return (
            "{}"
            if text == "MappingProxyType({})"
            else text.replace("datetime.timedelta", "timedelta")
        )


class Definition:
    """A class or function of a module."""

    def __init__(self, module: Module, node: Node) -> None:
        self.module = module
        self.node = node
        self.name = node.name
        self._doc = inspect.cleandoc(ast.get_docstring(node) or "")

    @property
    def doc(self) -> str:
        """The docstring without its lists."""
        return _SECTION.sub("", self._doc).strip()

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring."""
        return self.doc.partition("\n\n")[0]

    @cached_property
    def _meanings(self) -> dict[str, str]:
        entries = (_ENTRY.findall(listed) for _, listed in _SECTION.findall(self._doc))
        return {name: " ".join(text.split()) for found in entries for name, text in found}

    def arguments(self) -> list[Entry]:
        """Return the arguments of a function, or of a class's constructor."""
        if isinstance(self.node, ast.ClassDef):
            constructor = self._methods().get("__init__")
            if constructor is None:
                return self.fields()
            found = constructor.arguments()
            return [
                replace(each, meaning=self._meanings.get(each.name.lstrip("*")) or each.meaning)
                for each in found
            ]
        given = self.node.args
        plain = [*given.posonlyargs, *given.args]
        defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
        pairs = [*zip(plain, defaults, strict=True)]
        if given.vararg:
            pairs.append((given.vararg, None))
        pairs += zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if given.kwarg:
            pairs.append((given.kwarg, None))
        stars = {id(given.vararg): "*", id(given.kwarg): "**"}
        return [
            self._entry(stars.get(id(arg), "") + arg.arg, arg, arg.annotation, default)
            for arg, default in pairs
            if arg.arg not in {"self", "cls"}
        ]

    def fields(self) -> list[Entry]:
        """Return the annotated fields of a class."""
        assert isinstance(self.node, ast.ClassDef)
        return [
            self._entry(each.target.id, each, each.annotation, each.value)
            for each in self.node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            if not each.target.id.startswith("_") and "ClassVar" not in ast.unparse(each.annotation)
        ]

    def _entry(
        self,
        name: str,
        node: ast.arg | ast.stmt,
        annotation: ast.expr | None,
        default: ast.expr | None,
    ) -> Entry:
        meaning = self._meanings.get(name.lstrip("*")) or self.module.comment_of(node)
        return Entry(name, type_text(annotation), self.module.default(default), meaning)

    def attributes(self) -> list[Entry]:
        """Return what a docstring lists under `Attributes:` or `Args:`, without types."""
        return [Entry(name, meaning=meaning) for name, meaning in self._meanings.items()]

    def methods(self) -> "Iterator[Definition]":
        """Yield the public methods and properties, in order."""
        for name, method in self._methods().items():
            if not name.startswith("_"):
                yield method

    def all_methods(self) -> "Iterator[Definition]":
        """Yield all methods, special ones too."""
        yield from self._methods().values()

    def _methods(self) -> "dict[str, Definition]":
        assert isinstance(self.node, ast.ClassDef)
        return {
            each.name: Definition(self.module, each)
            for each in self.node.body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            if not any("setter" in ast.unparse(one) for one in each.decorator_list)
        }

    @property
    def is_property(self) -> bool:
        """Whether it is used without a call."""
        return isinstance(self.node, Node) and any(
            "property" in ast.unparse(each) for each in self.node.decorator_list
        )

    @property
    def signature(self) -> str:
        """How it is called, without types."""
        if self.is_property or isinstance(self.node, ast.ClassDef):
            return self.name
        has_only_names = [arg.arg for arg in self.node.args.kwonlyargs]
        parts: list[str] = []
        for each in self.arguments():
            if each.name in has_only_names and not any(part.startswith("*") for part in parts):
                parts.append("*")
            parts.append(f"{each.name}={each.default}" if each.default else each.name)
        return f"{self.name}({', '.join(parts)})"


@cache
def module(name: str) -> Module:
    """Return a module, parsed once."""
    return Module(name)


def definition(path: str) -> Definition:
    """Return the class or function at an import path."""
    of, _, name = path.rpartition(".")
    return module(of).definition(name)


def shown(value: object) -> str:
    """Return a default as a reader would write it."""
    text = repr(value)
    made = re.fullmatch(r"datetime\.(timedelta\(.*\))", text)
    return made[1].replace("()", "(0)") if made else text


# Aliases that mean little outside their module.
_ALIASES = {
    "Schedule": "str or timedelta or relativedelta or Timetable or AssetCondition"
    " or Collection[AssetCondition] or None",
    "_ZoneLike": "str or int or tzinfo",
    "_RunImmediately": "bool or timedelta or None",
    "Delta": "timedelta or relativedelta",
    "Instant": "datetime or str",
    "Bundle": "str or Path or Iterable[DAG]",
    "Tasks": "task, TaskGroup or list of them",
}


def type_text(annotation: ast.expr | None) -> str:
    """Return a type as people read it: without quotes, and unions with `or`."""
    if annotation is None:
        return ""
    text = ast.unparse(annotation).strip("'\"").replace("'", "").replace(" | ", " or ")
    text = re.sub(r"\bdatetime\.(?=\w)", "", text)
    for alias, meant in _ALIASES.items():
        text = re.sub(rf"(?<![\w.]){alias}(?! or None\b)\b", meant, text)
        text = re.sub(rf"(?<![\w.]){alias}\b", meant, text)
    return text.replace(" or _Left", "")
