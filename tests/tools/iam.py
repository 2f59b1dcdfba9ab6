"""What an IAM policy allows: enough of IAM to ask what a job may do.

Owns: the evaluation of the statements that our policies have. Refuses: whatever it does not know,
rather than to answer wrongly.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_KEYS = {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"}
# `${*}` is a star and no wildcard.
_PARTS = re.compile(r"\$\{([*?$])\}|([*?])|([^*?$]+)")


def allows(policy: str, action: str, arn: str, **context: str) -> bool:
    """Return whether a policy allows an action on a resource; `s3_prefix` is what is listed."""
    statements = json.loads(policy)["Statement"]
    found = [each["Effect"] for each in statements if _applies(each, action, arn, context)]
    return "Allow" in found and "Deny" not in found


def _applies(
    statement: Mapping[str, Any], action: str, arn: str, context: Mapping[str, str]
) -> bool:
    assert statement.keys() <= _KEYS, statement
    assert len({"Action", "NotAction"} & statement.keys()) == 1, statement
    assert len({"Resource", "NotResource"} & statement.keys()) == 1, statement
    is_action = _matches(statement, "Action", action, ignores_case=True)
    return is_action and _matches(statement, "Resource", arn) and _holds(statement, context)


def _matches(
    statement: Mapping[str, Any], name: str, value: str, *, ignores_case: bool = False
) -> bool:
    if name in statement:
        return _is_like(value, statement[name], ignores_case=ignores_case)
    return not _is_like(value, statement[f"Not{name}"], ignores_case=ignores_case)


def _holds(statement: Mapping[str, Any], context: Mapping[str, str]) -> bool:
    for operator, keys in statement.get("Condition", {}).items():
        assert operator == "StringLike", operator
        for key, patterns in keys.items():
            value = context.get(key.replace(":", "_"))
            if value is None or not _is_like(value, patterns):
                return False
    return True


def _is_like(value: str, patterns: str | Iterable[str], *, ignores_case: bool = False) -> bool:
    every = [patterns] if isinstance(patterns, str) else patterns
    flags = re.DOTALL | (re.IGNORECASE if ignores_case else 0)
    return any(re.fullmatch(_expression(pattern), value, flags) for pattern in every)


def _expression(pattern: str) -> str:
    wild = {"*": ".*", "?": "."}
    parts = list(_PARTS.finditer(pattern))
    assert "".join(part[0] for part in parts) == pattern, f"a variable in {pattern!r}"
    return "".join(wild[p[2]] if p[2] else re.escape(p[1] or p[3]) for p in parts)
