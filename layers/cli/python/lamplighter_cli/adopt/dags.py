"""Translates the arguments of a DAG, and compares its runs."""

import ast
import datetime
from typing import Any

from pendulum import DateTime

from lamplighter.errors import LamplighterError
from lamplighter.zones import encode_zone, parse_zone
from lamplighter_cli.adopt import schedules
from lamplighter_cli.adopt.constants import UnknownValueError
from lamplighter_cli.adopt.findings import DagReport, Level
from lamplighter_cli.adopt.names import last_part
from lamplighter_cli.adopt.options import KEPT_OF_DAG, about, translate_default_args
from lamplighter_cli.adopt.schedules import AIRFLOW_3
from lamplighter_cli.adopt.source import call_text
from lamplighter_cli.adopt.translator import Translator, quoted

_SCHEDULES = ("schedule", "schedule_interval", "timetable")
_POSITIONS = ("dag_id", "description", "schedule", "start_date", "end_date")
_UNKNOWN: Any = object()


class DagTranslation:
    """One call of `DAG`, or one decorator `@dag`."""

    def __init__(
        self, translator: Translator, call: ast.Call | None, at: ast.AST, *, default_id: str = ""
    ) -> None:
        self._translator = translator
        self._call = call
        self._at = at
        given = {} if call is None else dict(zip(_POSITIONS, call.args, strict=False))
        if call is not None:
            given |= {each.arg: each.value for each in call.keywords if each.arg}
        if default_id and call is not None and call.args:
            given["dag_id"] = call.args[0]
        self._given: dict[str, ast.expr] = given
        node = given.get("dag_id")
        text = translator.constants.text(node) or ("" if node is None else translator.text(node))
        self.report = DagReport(text or default_id or "(no id)", getattr(at, "lineno", 1))
        translator.report.dags.append(self.report)

    # Values.

    @property
    def _defaults(self) -> dict[str, ast.expr]:
        node = self._translator.constants.node(self._given.get("default_args"))
        if not isinstance(node, ast.Dict):
            return {}
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        return {str(key): value for key, value in zip(keys, node.values, strict=True)}

    def _date(self, name: str) -> Any:
        node = self._given.get(name) or self._defaults.get(name)
        if node is None:
            return None
        return self._translator.constants.value_or(node, _UNKNOWN)

    @property
    def _schedule_node(self) -> ast.expr | None:
        return next((self._given[name] for name in _SCHEDULES if name in self._given), None)

    def _schedule_value(self) -> Any:
        node = self._schedule_node
        if node is None:
            is_daily = self._translator.airflow < AIRFLOW_3
            return datetime.timedelta(days=1) if is_daily else None
        return self._translator.constants.value_or(node, _UNKNOWN)

    # Text.

    def translate(self, function: str, indent: str) -> str:
        """Return the call with the arguments that a DAG has here."""
        translator, given = self._translator, self._given
        if self._call is not None and any(each.arg is None for each in self._call.keywords):
            self._say(Level.EDIT, "has arguments in **: see that they are arguments of a DAG here")
        translate_default_args(translator, self.report, given.get("default_args"))
        made = [] if "dag_id" not in given else [translator.text(given["dag_id"])]
        made += [text] if (text := self._schedule_text()) else []
        for name, node in given.items():
            if name in KEPT_OF_DAG:
                made.append(f"{name}={translator.text(node)}")
            elif name == "concurrency":
                made.append(f"max_active_tasks={translator.text(node)}")
            elif name not in (*_SCHEDULES, "dag_id"):
                said = about(name, of_dag=True)
                if said is not None:
                    self._say(said[0], f"{name} {said[1]}", node)
        made += self._defaults_made_explicit()
        if self._call is not None:
            made += [f"**{translator.text(e.value)}" for e in self._call.keywords if e.arg is None]
        self._check_start_date()
        return call_text(function, made, indent)

    def _say(self, level: Level, message: str, node: ast.AST | None = None) -> None:
        self._translator.on_dag(self.report, level, node or self._at, message)

    def _schedule_text(self) -> str | None:
        node, value = self._schedule_node, self._schedule_value()
        is_three = self._translator.airflow >= AIRFLOW_3
        text = "None" if node is None else self._translator.text(node)
        written = text if value is _UNKNOWN else schedules.summary_of(value)
        self.report.schedule = " ".join(written.split())
        for name in _SCHEDULES[1:]:
            if name in self._given:
                self._say(Level.CHANGE, f"{name} is called schedule", node)
        if node is None and value is not None:
            self._say(Level.CHANGE, "without a schedule Airflow 2 runs daily, which is written out")
            self._translator.need("timedelta", "datetime")
            return "schedule=timedelta(days=1)"
        if node is None:
            return None
        if value is _UNKNOWN and is_three and not self._is_timetable_or_assets(node):
            message = "the schedule is only known when the file runs: if it is a cron text or a"
            message += " timedelta, wrap it in CronTriggerTimetable or DeltaTriggerTimetable, as"
            self._say(Level.EDIT, f"{message} plain ones mean data intervals here", node)
        if value is _UNKNOWN or not is_three or not schedules.is_plain(value):
            return f"schedule={text}"
        return f"schedule={self._trigger_text(value, text, node)}"

    def _is_timetable_or_assets(self, node: ast.expr) -> bool:
        made = self._translator.constants.node(node)
        if isinstance(made, ast.Call):
            # Classes have names that begin with a capital; a function may return a cron text.
            name = ast.unparse(made.func).rpartition(".")[2]
            return name[:1].isupper()
        return self._is_assets(node)

    def _is_assets(self, node: ast.expr | None) -> bool:
        match self._translator.constants.node(node):
            case ast.List() | ast.Tuple() | ast.BinOp(op=ast.BitOr() | ast.BitAnd()):
                return True
            case ast.Call(func=func):
                path = self._translator.source.names.airflow_path(func) or ""
                return last_part(path).startswith(("Asset", "Dataset")) and "Time" not in path
        return False

    def _trigger_text(self, value: object, text: str, node: ast.expr) -> str:
        module = "lamplighter.timetables.trigger"
        self._say(
            Level.CHANGE,
            "a plain schedule of Airflow 3 is a moment, not a data interval: the translation names"
            " the timetable that does the same",
            node,
        )
        if not isinstance(value, str):
            return f"{self._translator.need('DeltaTriggerTimetable', module)}({text})"
        name = self._translator.need("CronTriggerTimetable", module)
        return f"{name}({text}, timezone={self._zone_text()})"

    def _zone_text(self) -> str:
        start = self._date("start_date")
        if start is _UNKNOWN:
            self._say(Level.EDIT, "the time zone is only known when the file runs: UTC is written")
            return '"UTC"'
        zone = getattr(start, "tzinfo", None)
        if zone is None:
            return '"UTC"'
        found = encode_zone(parse_zone(zone))
        return quoted(found) if isinstance(found, str) else str(found)

    def _defaults_made_explicit(self) -> list[str]:
        made, given = [], self._given
        value = self._schedule_value()
        has_start = "start_date" in given or "start_date" in self._defaults
        if "catchup" not in given and value is not None:
            if self._translator.airflow >= AIRFLOW_3:
                made.append("catchup=False")
                self._say(Level.CHANGE, "catchup is False in Airflow 3, which is written out")
            elif not has_start and schedules.is_plain(value):
                made.append("catchup=False")
                self._say(
                    Level.EDIT,
                    "has no start_date to catch up from: give one, or keep catchup=False",
                )
        if "is_paused_upon_creation" not in given and value is not None:
            made.append("is_paused_upon_creation=True")
            self._say(Level.CHANGE, "a new DAG is paused in Airflow, which is written out")
        if value == "@continuous" and "max_active_runs" not in given:
            made.append("max_active_runs=1")
        return made

    def _check_start_date(self) -> None:
        value = self._date("start_date")
        if value is _UNKNOWN:
            node = self._given.get("start_date") or self._defaults.get("start_date")
            if isinstance(self._translator.constants.node(node), ast.Call):
                message = "start_date is computed when the file is read: write a fixed date, since"
                self._say(Level.EDIT, f"{message} one that moves starts the schedule anew", node)
        elif isinstance(value, datetime.datetime) and value.tzinfo is None:
            message = "start_date has no time zone: it is UTC here, and Airflow's default zone"
            self._say(Level.CHANGE, f"{message} there", self._given.get("start_date"))

    # Runs.

    def compare_runs(self, at: DateTime) -> None:
        """Add the next runs there and here to the report, if they can be known."""
        report = self.report
        schedule, start = self._schedule_value(), self._date("start_date")
        end = self._date("end_date")
        catchup = self._given.get("catchup")
        if schedule is None:
            report.no_runs_because = "it has no schedule"
            return
        if self._is_assets(self._schedule_node):
            report.no_runs_because = "it runs when its assets are updated"
            return
        try:
            known = None if catchup is None else self._translator.constants.value(catchup)
        except UnknownValueError:
            known = _UNKNOWN
        values = (schedule, start, end, known)
        if any(value is _UNKNOWN for value in values) or isinstance(schedule, list | tuple):
            report.no_runs_because = "its schedule or dates are only known when the file runs"
            return
        if start is None and known is not False and self._translator.airflow < AIRFLOW_3:
            report.no_runs_because = "without a start date Airflow 2 creates none"
            return
        try:
            report.runs = schedules.compare(
                schedules.KnownSchedule(schedule, start, end, known, self._translator.airflow),
                at=at,
            )
        except (LamplighterError, ValueError, TypeError, OverflowError) as error:
            report.no_runs_because = f"the schedule is not valid here: {error}"
            self._say(Level.EDIT, report.no_runs_because)
