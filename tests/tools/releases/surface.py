"""The names that others rely on, as a release has them: what a later one must still have.

Owns: where they are found, one function for each kind of name. docs/compatibility.md has the list.
"""

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer.main

from lamplighter import settings
from lamplighter.backfill.advance import AdvanceReport
from lamplighter.entry import NAMESPACE, BatchReport
from lamplighter.events import message
from lamplighter.events.ingest import IngestReport
from lamplighter.registry import pushes
from lamplighter.registry.register import RegisterReport
from lamplighter.runs import job_request
from lamplighter.runs.decision import RunsReport
from lamplighter.scheduler.claim import ClaimReport
from lamplighter.scheduler.tick import TickReport
from lamplighter.serialization import SCHEMA
from lamplighter.store.models import TABLES
from lamplighter.store.tables import table_definitions
from lamplighter.streams.delivery_rounds import WatchReport
from lamplighter.sweep import SweepReport
from lamplighter.topology import QUEUES, URL_SETTINGS
from lamplighter_cli.app import app
from lamplighter_infra.config import Config

# What authors, tests and jobs import. Of a module without `__all__`, its own public names.
MODULES = (
    "lamplighter",
    "lamplighter.timetables.assets",
    "lamplighter.timetables.base",
    "lamplighter.timetables.events",
    "lamplighter.timetables.interval",
    "lamplighter.timetables.simple",
    "lamplighter.timetables.testing",
    "lamplighter.timetables.trigger",
    "lamplighter.triggers",
    "lamplighter.triggers.base",
    "lamplighter.triggers.shared_stream",
    "lamplighter.triggers.sources",
    "lamplighter.events.emit",
    "lamplighter_infra",
    "lamplighter_job",
    "lamplighter_local",
)
_REPORTS = {
    "register": (RegisterReport, BatchReport),
    "tick": (TickReport,),
    "claim": (ClaimReport, AdvanceReport, BatchReport),
    "ingest": (IngestReport,),
    "watch": (WatchReport,),
    "submit": (RunsReport, BatchReport),
    "settle": (RunsReport, BatchReport),
    "sweep": (SweepReport,),
}


def surface() -> dict[str, Any]:
    """Return all names by kind: the files of a release that hold nothing but names."""
    return {
        "versions": versions(),
        "public_names": {name: dict(_names_of(name)) for name in MODULES},
        "settings": dict(_fields_of(settings.Settings)),
        "flags": dict(_fields_of(Config)),
        "construct": construct(),
        "outputs": sorted(settings.output_key(name) for name in _single_settings()),
        "queues": {name: {"consumer": queue.consumer} for name, queue in QUEUES.items()},
        "columns": {model.__name__: dict(_columns(model)) for model in TABLES},
        "indexes": {each.name: _indexes(each.create) for each in table_definitions("")},
        "metrics": metrics(),
        "commands": dict(_commands(typer.main.get_command(app), ())),
    }


def versions() -> dict[str, int]:
    """Return the number of each form that has one, as it is written."""
    return {
        "DAG document": SCHEMA,
        "context.json": job_request.CONTEXT_VERSION,
        "report.json": job_request.REPORT_VERSION,
        "announcement of a push": pushes.FORMAT,
        "asset event": message.VERSION,
    }


def metrics() -> dict[str, Any]:
    """Return the metrics of each function; a count by reason has its own metric for each."""
    found = {
        service: sorted(
            {each.name.title().replace("_", "") for report in reports for each in fields(report)}
        )
        for service, reports in _REPORTS.items()
    }
    return {"namespace": NAMESPACE, "dimensions": ["service", "stack"], "names": found}


def construct() -> dict[str, list[str]]:
    """Return the props and the members of the construct, without importing the CDK for them."""
    spec = find_spec("lamplighter_infra")
    assert spec is not None
    folder = next(iter(spec.submodule_search_locations or ()))
    found = {}
    for module, name in (("props", "Props"), ("construct", "Lamplighter")):
        tree = ast.parse((Path(folder) / f"{module}.py").read_text(encoding="utf-8"))
        (made,) = [
            each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name
        ]
        names = [
            name_of
            for each in made.body
            if (name_of := getattr(each, "name", getattr(getattr(each, "target", None), "id", "")))
        ]
        found[name] = sorted(each for each in names if not each.startswith("_"))
    return found


_STATEFUL = ("AWS::DynamoDB::", "AWS::KMS::Key", "AWS::S3::Bucket", "AWS::SQS::Queue")


def stateful(template: dict[str, Any]) -> dict[str, str]:
    """Return the resources that hold something, by logical id: another id is another resource."""
    found = {name: str(each["Type"]) for name, each in template["Resources"].items()}
    return {
        name: kind
        for name, kind in found.items()
        if kind.startswith(_STATEFUL) and not kind.endswith("Policy")
    }


def _single_settings() -> list[str]:
    own = [each.name for each in fields(settings.Settings) if each.name != "queue_urls"]
    return [*own, *URL_SETTINGS.values()]


def _fields_of(kind: type) -> Iterator[tuple[str, dict[str, Any]]]:
    for each in fields(kind):
        default = each.default
        if default is MISSING and each.default_factory is not MISSING:
            made = each.default_factory()
            default = made if isinstance(made, dict) else "…"
        told = {} if default is MISSING else {"default": default}
        if each.name != "settings":  # of a stage: each of them is a flag, and in its own list
            yield each.name, {"type": _type_name(each.type), **told}


def _type_name(declared: Any) -> str:
    """Return the type of a value without its limits, which may become wider."""
    if get_origin(declared) is Annotated:
        declared = get_args(declared)[0]
    return str(declared) if get_origin(declared) else str(declared.__name__)


def _names_of(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    module = importlib.import_module(name)
    for each in sorted(_public(module)):
        # Those of the CDK need a Node to be imported: `construct` has them.
        value = None if name == "lamplighter_infra" else getattr(module, each)
        yield each, _described(value, has_members=name != "lamplighter")


def _public(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _described(value: Any, *, has_members: bool) -> dict[str, Any]:
    """Return the parameters of a function or class, and those of a class's public methods.

    Authors make the classes of `lamplighter` and call nothing of them; others they derive from.
    """
    if not inspect.isclass(value) or not has_members:
        return {"parameters": _parameters(value)} if callable(value) else {}
    members = {
        name: _parameters(member) if callable(member) else []
        for name, member in inspect.getmembers(value)
        if not name.startswith("_") and not isinstance(member, type)
    }
    return {"parameters": _parameters(value), "members": members}


def _parameters(value: Any) -> list[str]:
    """Return each parameter; `=` stands behind those that may be left out."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    found = []
    for each in signature.parameters.values():
        needed = "" if each.default is inspect.Parameter.empty else "="
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            found += [f"{option}=" for option in _options(each.annotation)] or [f"**{each.name}"]
        else:
            star = "*" if each.kind is inspect.Parameter.VAR_POSITIONAL else ""
            found.append(f"{star}{each.name}{needed}")
    return found


def _options(annotation: Any) -> list[str]:
    """Return the names that `Unpack` of a typed dictionary allows."""
    arguments = getattr(annotation, "__args__", ())
    return sorted(get_type_hints(arguments[0])) if arguments else []


def _columns(model: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, attribute in model.get_attributes().items():
        told = {"type": attribute.attr_type, "encoding": type(attribute).__name__}
        yield name, {**told, "is_required": not attribute.null}


def _indexes(create: dict[str, Any]) -> dict[str, Any]:
    found = {each["IndexName"]: each for each in create.get("GlobalSecondaryIndexes", ())}
    return {
        "": [each["AttributeName"] for each in create["KeySchema"]],
        **{
            name: [key["AttributeName"] for key in each["KeySchema"]]
            for name, each in found.items()
        },
    }


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    options = [
        name
        for parameter in command.params
        for name in (
            [parameter.name or ""]
            if parameter.param_type_name == "argument"
            else [*parameter.opts, *parameter.secondary_opts]
        )
        if name != "--help"
    ]
    yield " ".join(("lamplighter", *path)), {"options": sorted(options)}
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, (*path, name))
