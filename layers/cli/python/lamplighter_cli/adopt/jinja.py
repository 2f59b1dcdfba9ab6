"""Templates: what Airflow's become here, and which have no counterpart.

Which names exist is read from the code that renders them.
"""

import re

from lamplighter.dags.templates import GONE, check_text
from lamplighter.errors import DefinitionError

_SPAN = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_PULL = re.compile(
    r"\b(?:ti|task_instance)\.xcom_pull\(\s*(?:task_ids\s*=\s*)?(['\"])(?P<task>[\w.-]+)\1"
    r"\s*(?:,\s*(?:key\s*=\s*)?(['\"])(?P<key>\w+)\3\s*)?\)"
)
_KEY_FIRST = re.compile(
    r"\b(?:ti|task_instance)\.xcom_pull\(\s*key\s*=\s*(['\"])(?P<key>\w+)\1\s*,"
    r"\s*task_ids\s*=\s*(['\"])(?P<task>[\w.-]+)\3\s*\)"
)
_WORD = re.compile(r"(?<![\w.'\"])[a-z_]+\b(?!['\"\w=(])")
_ADVICE = (
    (r"\bvar\.json\.", "var.json: put the parts into variables of their own, var.value.name"),
    (
        r"\bconn\.",
        "conn: connections stay behind; let the job read a secret with context.secret(…)",
    ),
    (r"\bxcom_pull\b", "this xcom_pull: name one task as text, as in outputs.load.rows"),
    (
        r"\bmacros\.(?!ds_add|ds_format|timedelta)\w+",
        "macros: only ds_add, ds_format and timedelta",
    ),
)
# What was removed from Airflow, too, and has an expression in its place.
_RENAMED = {
    name: instead for name, instead in GONE.items() if name != "conn" and "…" not in instead
}


def translate(text: str) -> str:
    """Return a template with the names that exist here."""
    return _SPAN.sub(lambda found: _translate_span(found[0]), text)


def without_problems(text: str) -> str:
    """Return a template that can be checked, and that fails its step where it must be rewritten."""
    if "{%" in text:
        return _failing(text)
    return _SPAN.sub(
        lambda found: found[0] if problem(found[0]) is None else _failing(found[0]), text
    )


def _failing(text: str) -> str:
    plain = re.sub(r"[^\w .,:|()\[\]=*/+-]", "", text).strip()
    return f'{{{{ conf["rewrite this template: {plain}"] }}}}'


def problem(text: str) -> str | None:
    """Return what is wrong with a translated template, or None."""
    if "{{" not in text and "{%" not in text:
        return None
    for pattern, advice in _ADVICE:
        if re.search(pattern, text):
            return advice
    try:
        check_text(text, what="template")
    except DefinitionError as error:
        return str(error).partition(": ")[2]
    return None


def _translate_span(span: str) -> str:
    for pattern in (_PULL, _KEY_FIRST):
        span = pattern.sub(_output, span)
    return _WORD.sub(lambda found: _RENAMED.get(found[0], found[0]), span)


def _output(found: re.Match[str]) -> str:
    task, key = found["task"], found["key"] or "return_value"
    return f"outputs.{task}.{key}" if task.isidentifier() else f'outputs["{task}"].{key}'
