"""What the document of a DAG says about its tasks, task groups and params, as JSON and as text."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lamplighter.safe_text import masked

Groups: TypeAlias = Mapping[str, Sequence[str]]
"""The groups of tasks that are in any, by task: the outermost first."""

# Between a group and the group that is in it.
GROUPS_JOIN = " > "


def task_ids(document: Mapping[str, Any]) -> list[str]:
    """Return the ids of all tasks."""
    return [task["task_id"] for task in document.get("tasks", ())]


def groups_by_task(document: Mapping[str, Any]) -> Groups:
    """Return the groups of each task that is in any."""
    tasks = document.get("tasks", ())
    return {task["task_id"]: task["groups"] for task in tasks if task["groups"]}


def task_groups(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the tasks of each group; those of a group in it are among them."""
    found: dict[str, list[str]] = {}
    for task_id, groups in groups_by_task(document).items():
        for group in groups:
            found.setdefault(group, []).append(task_id)
    return found


def tasks_text(document: Mapping[str, Any]) -> str:
    """Return the tasks as text: a line for those without a group, and one for each group."""
    groups, lines = groups_by_task(document), dict[str, list[str]]()
    for task_id in task_ids(document):
        path = GROUPS_JOIN.join(groups.get(task_id, ()))
        lines.setdefault(path, []).append(task_id)
    return "\n".join(
        f"{path}: {', '.join(tasks)}" if path else ", ".join(tasks)
        for path, tasks in sorted(lines.items())
    )


def params_json(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the params with type, description and, if they have one, default."""
    defaults, schemas = masked(document.get("params", {})), document.get("param_schemas", {})
    return [
        {
            "name": name,
            "type": schemas.get(name, {}).get("type"),
            "description": masked(schemas.get(name, {}).get("description")),
            **({"default": defaults[name]} if name in defaults else {}),
        }
        for name in sorted({*defaults, *schemas})
    ]


def params_text(document: Mapping[str, Any]) -> str:
    """Return the params as text, one on each line."""
    return "\n".join(map(_param_text, params_json(document)))


def _param_text(param: Mapping[str, Any]) -> str:
    kinds = param["type"] if isinstance(param["type"], list) else [param["type"] or ""]
    default = f"default {json.dumps(param['default'])}" if "default" in param else "no default"
    facts = ", ".join(fact for fact in (" or ".join(map(str, kinds)), default) if fact)
    return f"{param['name']} ({facts})" + (
        f": {param['description']}" if param["description"] else ""
    )
