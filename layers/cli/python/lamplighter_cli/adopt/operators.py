"""Translates the call of one operator into a task."""

import ast
import re
from collections.abc import Callable

from lamplighter_cli.adopt import python_tasks
from lamplighter_cli.adopt.context_use import CannotMoveError
from lamplighter_cli.adopt.findings import Level, TaskReport
from lamplighter_cli.adopt.names import RENAMED_OPERATORS, STATES, Operator
from lamplighter_cli.adopt.operator_arguments import (
    elements_of,
    entries_of,
    is_below,
    is_mapped,
    is_plain_shell,
    keys_of,
    keywords_of,
    plain_text,
    split_words,
)
from lamplighter_cli.adopt.options import common
from lamplighter_cli.adopt.python_tasks import StepMaker, placeholder
from lamplighter_cli.adopt.source import call_text
from lamplighter_cli.adopt.spark import SETTINGS, SparkJob, parse_command, parse_words
from lamplighter_cli.adopt.translator import Scope, TaskRef, Translator, quoted


class OperatorCall:
    """One operator: its name, its options, and the task that it becomes."""

    def __init__(
        self, translator: Translator, call: ast.Call, name: str, entry: Operator, scope: Scope
    ) -> None:
        self._translator = translator
        self._call = call
        self._name = name
        self._entry = entry
        self._scope = scope
        options = {each.arg: each.value for each in keywords_of(call) if each.arg}
        own = call.args if not is_mapped(call) else []
        if own and "task_id" not in options:
            options["task_id"] = own[0]
        self._options: dict[str, ast.expr] = options
        node = options.get("task_id")
        self._id = translator.constants.text(node)
        self._id_text = '"task"' if node is None else translator.text(node)
        known = self._id or self._id_text
        self.report = TaskReport(known, name, call.lineno)
        (translator.report.dags[-1] if scope.dag is None else scope.dag).tasks.append(self.report)

    def translate(self) -> tuple[str, TaskRef]:
        """Return the text of the task, and how others refer to it."""
        translator = self._translator
        translator.current_task = self.report
        try:
            text = self._translate()
        finally:
            translator.current_task = None
        prefix = self._scope.prefix
        is_known = self._id is not None and prefix is not None
        is_python = self._entry.how in {"python", "short_circuit", "none", "bash", "empty"}
        ref = TaskRef(f"{prefix}{self._id}" if is_known else None, None, is_python)
        return text, ref

    def _translate(self) -> str:
        if any(each.arg is None for each in keywords_of(self._call)):
            self._say(Level.EDIT, "has arguments in **: see that a task here takes them")
        if is_mapped(self._call):
            return self._not_moved(
                "tasks are not mapped: loop over the items in the job, or make a task for each with"
                " a for loop in this file"
            )
        make = _MAKERS.get(self._entry.how)
        if make is None:
            return self._not_moved(self._entry.advice)
        try:
            return make(self)
        except CannotMoveError as error:
            return self._not_moved(str(error))

    def _say(self, level: Level, message: str, snippet: object = None) -> None:
        self._translator.on_task(level, self._call, message, snippet)

    def _node(self, *names: str) -> ast.expr | None:
        found = (self._options.get(name) for name in names)
        return next((node for node in found if node is not None), None)

    def _task(self, kind: str, options: list[str], *used: str) -> str:
        every = common(self._translator, self._call, self._options, set(used))
        return self._call_text(kind, [*options, *every])

    def _call_text(self, kind: str, options: list[str]) -> str:
        translator = self._translator
        starred = [e.value for e in keywords_of(self._call) if e.arg is None]
        identity = [] if starred and "task_id" not in self._options else [self._id_text]
        arguments = [*identity, *options, *(f"**{translator.text(each)}" for each in starred)]
        return call_text(translator.need(kind), arguments, translator.source.indent(self._call))

    def _not_moved(self, reason: str) -> str:
        self._say(Level.CANNOT, f"{self._name} does not move: {reason}")
        job = placeholder(self._translator, self.report.task_id, f"{self._name}: {reason}"[:300])
        every = common(self._translator, self._call, self._options, set(self._options))
        return self._call_text("PythonTask", [f"job={job}", *every])

    # Python.

    def _python(self) -> str:
        translator, node = self._translator, self._options.get("python_callable")
        if node is None:
            raise CannotMoveError("it has no python_callable")
        found = python_tasks.find_function(translator, node, self._scope)
        if found is None:
            raise CannotMoveError(
                f"its function `{translator.text(node)[:60]}` is not in this file: call it from a"
                " function (context) of jobs/"
            )
        function, name, around = found
        translator.handled.add(name)
        if self._options.get("templates_dict") is not None:
            raise CannotMoveError("it has templates_dict: pass them in op_kwargs")
        positional = elements_of(translator, self._options.get("op_args"))
        named = entries_of(translator, self._options.get("op_kwargs"))
        moved = translator.jobs.move(function, name, around, frozenset(named))
        maker = StepMaker(translator, self._scope)
        is_skipping = self._entry.how == "short_circuit"
        step = maker.finish(moved, positional, named, self.report.task_id, skips=is_skipping)
        self._say(Level.CHANGE, f"{self._entry.advice}: {name} moves to jobs/{step.read}")
        for ref in step.inputs:
            if ref.variable is not None:
                translator.statement.after.append(f"{ref.variable} >> {{}}")
        used = {"python_callable", "op_args", "op_kwargs", "templates_exts", "templates_dict"}
        used |= {"ignore_downstream_trigger_rules"}
        return self._task("PythonTask", step.options(), *used)

    def _empty(self) -> str:
        self._say(self._entry.level, f"{self._entry.advice}")
        job = python_tasks.nothing(self._translator)
        used = [] if self._name in {"EmptyOperator", "DummyOperator"} else list(self._options)
        return self._task("PythonTask", [f"job={job}"], *used)

    def _bash(self) -> str:
        node = self._node("bash_command")
        command = self._translator.constants.text(node)
        if command is None:
            raise CannotMoveError("its command is only known when the file runs")
        if re.match(r"\s*(\S*/)?spark-submit\s", command):
            job = parse_command(command)
            if job is None:
                raise CannotMoveError("its command is more than one spark-submit: split it")
            return self._spark(job, "bash_command", "env", "append_env", "cwd")
        if not is_plain_shell(command):
            raise CannotMoveError(
                "it runs programs: write it as a function of jobs/, or run a container with ECS in"
                " a state machine"
            )
        jobs = self._translator.jobs
        jobs.use_import("subprocess")
        run = 'subprocess.run(["bash", "-c", context.arguments[0]], check=True)'
        job_text = jobs.add_step("run_shell", "shell", [run], "Run a command of the shell.")
        assert node is not None
        argument = self._translator.template(command, node)
        self._say(Level.CHANGE, "runs its command in a PythonTask")
        options = [f"job={job_text}", f"arguments=[{argument}]"]
        return self._task("PythonTask", options, "bash_command")

    # Spark.

    def _spark_submit(self) -> str:
        constants, job = self._translator.constants, SparkJob()
        job.application = constants.text(self._node("application")) or ""
        for name in ("executor_cores", "executor_memory", "driver_memory", "num_executors"):
            if name in self._options:
                value = constants.value_or(self._options[name], "")
                job.set_size(name.replace("num_executors", "max_executors"), value)
        self._take_conf(job, self._node("conf"))
        for name, files in (("py_files", job.py_files), ("archives", job.archives)):
            files += [part for part in (constants.text(self._node(name)) or "").split(",") if part]
        if "java_class" in self._options:
            raise CannotMoveError("it runs Java or Scala: only PySpark programs are run")
        for name, setting in SETTINGS.items():
            if name in self._options:
                job.set_conf(setting, constants.text(self._options[name]) or "")
        used = {"application", "conf", "py_files", "archives", "application_args", "name", "jars"}
        used |= {*SETTINGS, "conn_id", "total_executor_cores", "verbose"}
        used |= {"executor_cores", "executor_memory", "driver_memory", "num_executors"}
        used |= {"spark_binary", "keytab", "principal", "proxy_user", "env_vars", "deploy_mode"}
        return self._spark(job, *used, arguments=self._node("application_args"))

    def _take_conf(self, job: SparkJob, node: ast.expr | None) -> None:
        for key, value in entries_of(self._translator, node).items():
            known = self._translator.constants.value_or(value)
            if known is None:
                job.notes.append(f"the Spark setting {key} is left out: it is no constant")
            else:
                text = str(known).lower() if isinstance(known, bool) else str(known)
                job.set_conf(key, text)

    def _emr_serverless(self) -> str:
        translator, constants = self._translator, self._translator.constants
        driver = entries_of(translator, self._options.get("job_driver"))
        submit = entries_of(translator, driver.get("sparkSubmit"))
        application = constants.text(submit.get("entryPoint"))
        if application is None:
            raise CannotMoveError("its job_driver is only known when the file runs")
        job = SparkJob()
        parameters = constants.text(submit.get("sparkSubmitParameters"))
        if parameters:
            job = parse_words(split_words(parameters)) or job
        job.application = application
        used = {"application_id", "execution_role_arn", "job_driver", "configuration_overrides"}
        used |= {"client_request_token", "config", "name", "enable_application_ui_links"}
        if "configuration_overrides" in self._options:
            job.notes.append("configuration_overrides is left out: the deployment has its own logs")
        return self._spark(job, *used, arguments=submit.get("entryPointArguments"))

    def _emr_steps(self) -> str:
        steps = self._translator.constants.node(self._options.get("steps"))
        if not isinstance(steps, ast.List) or not steps.elts:
            raise CannotMoveError("its steps are only known when the file runs")
        if len(steps.elts) > 1:
            raise CannotMoveError("it has several steps: write a SparkTask for each")
        step = entries_of(self._translator, steps.elts[0])
        jar = entries_of(self._translator, step.get("HadoopJarStep"))
        words = self._translator.constants.value_or(jar.get("Args"))
        if not isinstance(words, list) or not words or words[0] != "spark-submit":
            raise CannotMoveError("its step is not spark-submit: only PySpark programs are run")
        job = parse_words([str(word) for word in words[1:]])
        if job is None:
            raise CannotMoveError("its spark-submit is not understood")
        return self._spark(job, "job_flow_id", "steps", "job_flow_name", "cluster_states")

    def _spark(self, job: SparkJob, *used: str, arguments: ast.expr | None = None) -> str:
        translator = self._translator
        if not job.application:
            raise CannotMoveError("its application is only known when the file runs")
        if not job.application.endswith(".py"):
            raise CannotMoveError(f"{job.application!r} is not a Python file")
        self._say(Level.CHANGE, "becomes a SparkTask")
        self._add_script(job)
        job.fit_sizes()
        for note in job.notes:
            self._say(Level.EDIT, note)
        options = [f"entry_point={quoted(job.script)}"]
        texts = [translator.template(text, self._call) for text in job.arguments]
        given = translator.arguments(arguments) or (f"[{', '.join(texts)}]" if texts else None)
        options += [f"arguments={given}"] if given else []
        options += [
            f"{name}={quoted(value) if isinstance(value, str) else value}"
            for name, value in job.sizes.items()
        ]
        if job.conf:
            pairs = (
                f"{quoted(key)}: {translator.template(value, self._call)}"
                for key, value in job.conf.items()
            )
            options.append(f"spark_conf={{{', '.join(pairs)}}}")
        for name, files in (("py_files", job.py_files), ("archives", job.archives)):
            if files:
                options.append(f"{name}=[{', '.join(map(quoted, files))}]")
        return self._task("SparkTask", options, *used)

    def _add_script(self, job: SparkJob) -> None:
        translator = self._translator
        name = job.application.lstrip("/")
        for folder in (translator.source.path.parent, translator.root):
            found = folder / name
            if "://" not in name and found.is_file() and is_below(found, translator.root):
                translator.scripts[job.script] = found.read_text("utf-8", errors="replace")
                return
        text = f"{job.script}: put {job.application} here"
        translator.scripts.setdefault(
            job.script,
            f'"""Put {plain_text(job.application)} here."""\n\nraise SystemExit({quoted(text)})\n',
        )
        self._say(Level.EDIT, f"put the program {job.application} into the bundle as {job.script}")

    # Other services.

    def _service(self) -> str:
        name = RENAMED_OPERATORS.get(self._name, self._name)
        resource, parameters = STATES[name]
        constants = self._translator.constants
        state: dict[str, object] = {}
        made: list[str] = []
        for option, parameter in parameters.items():
            node = self._options.get(option)
            if node is None:
                continue
            value = constants.value_or(node)
            if not parameter:
                state |= {
                    f"{key}.$": f"$.{option}.{key}" for key in keys_of(self._translator, node)
                }
                made.append(f"{quoted(option)}: {self._input(node)}")
            elif isinstance(value, str) and "{{" not in value:
                state[parameter] = value
            else:
                path = f"$.{option}"
                is_json = parameter == "Payload" and isinstance(value, str)
                state[f"{parameter}.$"] = f"States.StringToJson({path})" if is_json else path
                made.append(f"{quoted(option)}: {self._input(node)}")
        machine = re.sub(r"[^\w-]+", "-", self.report.task_id).strip("-")[:80] or "task"
        snippet = {
            "Type": "Task",
            "Resource": f"arn:aws:states:::{resource}",
            "Parameters": state,
            "End": True,
        }
        message = f"{self._entry.advice}, as {machine!r}, and name it in the flag state_machines"
        self._say(Level.EDIT, f"{message} when you deploy", snippet)
        if resource.startswith("aws-sdk:"):
            self._say(
                Level.EDIT, "this state only starts the work: add states that wait for its end"
            )
        options = [f"state_machine={quoted(machine)}"]
        options += [f"input={{{', '.join(made)}}}"] if made else []
        return self._task("StepFunctionsTask", options, *self._options)

    def _input(self, node: ast.expr) -> str:
        found = self._translator.constants.node(node) or node
        match found:
            case ast.Constant(value=str(text)):
                return self._translator.template(text, found)
            case ast.List(elts=elements) if not any(isinstance(e, ast.Starred) for e in elements):
                return f"[{', '.join(map(self._input, elements))}]"
            case ast.Dict(keys=keys, values=values) if all(
                isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys
            ):
                pairs = zip(keys, values, strict=True)
                texts = (
                    f"{quoted(str(key.value))}: {self._input(value)}"
                    for key, value in pairs
                    if isinstance(key, ast.Constant)
                )
                return f"{{{', '.join(texts)}}}"
        return self._translator.text(node)

    def _state_machine(self) -> str:
        machine = self._translator.constants.text(self._node("state_machine_arn"))
        if machine is None:
            raise CannotMoveError("its state machine is only known when the file runs")
        node = self._node("state_machine_input")
        message = "name it in the flag state_machines when you deploy"
        self._say(Level.CHANGE, f"{self._entry.advice}: {message}")
        options = [f"state_machine={quoted(machine)}"]
        options += [f"input={self._input(node)}"] if node is not None else []
        return self._task("StepFunctionsTask", options, *self._options)


_MAKERS: dict[str, Callable[[OperatorCall], str]] = {
    "python": OperatorCall._python,  # noqa: SLF001 - a table of this class
    "short_circuit": OperatorCall._python,  # noqa: SLF001 - as above
    "empty": OperatorCall._empty,  # noqa: SLF001 - as above
    "bash": OperatorCall._bash,  # noqa: SLF001 - as above
    "spark_submit": OperatorCall._spark_submit,  # noqa: SLF001 - as above
    "emr_serverless": OperatorCall._emr_serverless,  # noqa: SLF001 - as above
    "emr_steps": OperatorCall._emr_steps,  # noqa: SLF001 - as above
    "service": OperatorCall._service,  # noqa: SLF001 - as above
    "state_machine": OperatorCall._state_machine,  # noqa: SLF001 - as above
}
