"""The tables that pages have in common: arguments, fields, and methods of a class."""

from collections.abc import Iterable

from tests.reference.markdown import Page, code, paragraphs, sentence
from tests.reference.source import Definition, Entry, definition


def arguments(page: Page, entries: Iterable[Entry], *, needed: bool = True) -> None:
    """Add a table of arguments; `needed` marks those without a default."""
    page.table(
        ("argument", "type", "default", "meaning"),
        (
            (
                code(each.name),
                code(each.type),
                code(each.default) or ("required" if needed and "*" not in each.name else ""),
                sentence(each.meaning),
            )
            for each in entries
        ),
    )


def fields(page: Page, entries: Iterable[Entry]) -> None:
    """Add a table of what an object has."""
    page.table(
        ("name", "type", "meaning"),
        ((code(each.name), code(each.type), sentence(each.meaning)) for each in entries),
    )


def methods(page: Page, of: Definition, *, skip: Iterable[str] = ()) -> None:
    """Add a table of the methods and properties of a class, then the arguments that need words."""
    # One without a docstring overrides a method that has one.
    found = [each for each in of.methods() if each.name not in set(skip) and each.doc]
    page.table(
        ("method or property", "meaning"),
        ((code(each.signature), sentence(each.summary)) for each in found),
    )
    for each in found:
        described = [entry for entry in each.arguments() if entry.meaning]
        if described and not each.is_property:
            page.heading(f"{of.name}.{each.name}", level=3)
            arguments(page, described)


def class_section(page: Page, path: str, *, title: str = "", has_methods: bool = False) -> None:
    """Add a section about a class: its docstring, its arguments, and its methods if wanted."""
    found = definition(path)
    page.heading(title or found.name)
    page.text(paragraphs(found.doc))
    page.text(code(f"from {_import_root(path)} import {found.name}"))
    arguments(page, found.arguments())
    if has_methods:
        methods(page, found)


def _import_root(path: str) -> str:
    """Return where people import a name from."""
    module, _, name = path.rpartition(".")
    root = module.partition(".")[0]
    for shorter in (root, ".".join(module.split(".")[:2])):
        if name in _names_of(shorter):
            return shorter
    return module


def _names_of(package: str) -> list[str]:
    return list(getattr(__import__(package, fromlist=["__all__"]), "__all__", ()))
