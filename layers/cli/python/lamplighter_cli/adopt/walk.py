"""Walks over the statements of an Airflow file, and translates the DAGs and tasks in them."""

import ast
from dataclasses import replace

from lamplighter_cli.adopt.dags import DagTranslation
from lamplighter_cli.adopt.findings import DagReport, Level
from lamplighter_cli.adopt.names import (
    ADVICE,
    BY_ENDING,
    KEPT,
    Operator,
    advice_on,
    last_part,
    operator_of,
    task_kind,
)
from lamplighter_cli.adopt.operators import OperatorCall
from lamplighter_cli.adopt.taskflow import TaskCall, in_group
from lamplighter_cli.adopt.translator import Scope, Statement, TaskFunction, TaskRef, Translator

_UNKNOWN_OPERATOR = BY_ENDING[-1][1]
_MAPPING = frozenset({"partial", "expand", "expand_kwargs"})


class Walk:
    """One walk over a file."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        self._names = translator.source.names
        self.dags: list[DagTranslation] = []
        self._operators: dict[str, str] = {}

    def run(self) -> None:
        """Translate the file."""
        self._rename(self._translator.source.tree)
        self._body(self._translator.source.tree.body, Scope())

    # Names of the same meaning.

    def _rename(self, tree: ast.AST) -> None:
        rest: list[ast.AST] = [tree]
        while rest:
            node = rest.pop()
            if isinstance(node, ast.Name | ast.Attribute):
                path = self._names.airflow_path(node)
                if path is not None and self._rename_one(node, path):
                    continue
            if isinstance(node, ast.Call) and self._names.airflow_path(node.func):
                name = last_part(self._names.airflow_path(node.func) or "")
                self._rename_keywords(node, name)
            rest.extend(ast.iter_child_nodes(node))

    def _rename_one(self, node: ast.Name | ast.Attribute, path: str) -> bool:
        parts = path.split(".")
        edits = self._translator.edits
        if len(parts) > 1 and parts[-2] == "TriggerRule" and isinstance(node, ast.Attribute):
            edits.replace_node(node, f'"{node.attr.lower()}"')
            return True
        if parts[-1] in KEPT:
            module, name = KEPT[parts[-1]]
            edits.replace_node(node, self._translator.need(name, module))
            return True
        return False

    def _rename_keywords(self, node: ast.Call, name: str) -> None:
        if name == "DatasetOrTimeSchedule":
            for keyword in node.keywords:
                if keyword.arg == "datasets":
                    start = self._translator.source.start(keyword)
                    self._translator.edits.replace(start, start + len("datasets"), "assets")

    # Statements.

    def _body(self, body: list[ast.stmt], scope: Scope) -> None:
        for statement in body:
            self._one(statement, scope)

    def _one(self, node: ast.stmt, scope: Scope) -> None:  # noqa: C901 - one case for each kind
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, scope)
            case ast.ClassDef():
                self._class(node)
            case ast.With():
                self._with(node, scope)
            case ast.For() | ast.AsyncFor():
                self._simple(node, [node.iter], scope)
                self._body([*node.body, *node.orelse], replace(scope, in_loop=True))
            case ast.While():
                self._simple(node, [node.test], scope)
                self._body([*node.body, *node.orelse], replace(scope, in_loop=True))
            case ast.If():
                self._simple(node, [node.test], scope)
                self._body([*node.body, *node.orelse], scope)
            case ast.Try() | ast.TryStar():
                handlers = [each for handler in node.handlers for each in handler.body]
                self._body([*node.body, *handlers, *node.orelse, *node.finalbody], scope)
            case ast.Match():
                self._simple(node, [node.subject], scope)
                for case in node.cases:
                    self._body(case.body, scope)
            case ast.Assign() | ast.AnnAssign() | ast.Expr() | ast.Return():
                self._value(node, scope)
            case ast.AugAssign():
                self._simple(node, [node.value], scope)
            case _:
                children = (each for each in ast.iter_child_nodes(node))
                self._simple(node, [each for each in children if isinstance(each, ast.expr)], scope)

    def _value(
        self, node: ast.Assign | ast.AnnAssign | ast.Expr | ast.Return, scope: Scope
    ) -> None:
        if node.value is None:
            return
        statement = Statement()
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(targets) == 1 and isinstance(targets[0], ast.Name):
                statement.target = targets[0].id
        if isinstance(node.value, ast.Call) and not isinstance(node, ast.Return):
            statement.direct = node.value
        self._simple(node, [node.value], scope, statement)
        target = statement.target
        if target is not None:
            known = self._translator.results.get(id(node.value))
            if known is not None:
                self._translator.tasks[target] = replace(known, variable=target)
            elif isinstance(node.value, ast.Call) and self._is(node.value, "DAG"):
                self._translator.dag_variables[target] = self._translator.report.dags[-1]
            elif target in self._translator.tasks:
                del self._translator.tasks[target]

    def _simple(
        self,
        node: ast.stmt,
        expressions: list[ast.expr],
        scope: Scope,
        statement: Statement | None = None,
    ) -> None:
        """Translate the expressions of a statement, and put what they need around it."""
        outer, statement = self._translator.statement, statement or Statement()
        self._translator.statement = statement
        try:
            for expression in expressions:
                self._expression(expression, scope)
        finally:
            self._translator.statement = outer
        source, edits = self._translator.source, self._translator.edits
        if statement.text is not None:
            edits.replace_node(node, statement.text)
        is_block = not isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr | ast.AugAssign)
        before = [*statement.before, *(statement.after if is_block else [])]
        after = [] if is_block else statement.after
        if not before and not after:
            return
        if not (is_block or source.is_alone(node)):
            self._translator.on_file(Level.EDIT, node, "write this statement on lines of its own")
            self._translator.handled.add("")
            return
        indent = source.indent(node)
        for line in before:
            edits.insert(source.line_start(node), f"{indent}{line}\n")
        for line in after:
            edits.insert(source.line_end(source.end(node)), f"\n{indent}{line}")

    def _with(self, node: ast.With, scope: Scope) -> None:
        for item in node.items:
            call = item.context_expr
            self._simple(node, [call], scope)
            if not isinstance(call, ast.Call):
                if isinstance(call, ast.Name) and call.id in self._translator.dag_variables:
                    scope = replace(scope, dag=self._translator.dag_variables[call.id])
                continue
            if self._is(call, "DAG"):
                report = self._translator.report.dags[-1]
                scope = replace(scope, dag=report, prefix="", in_loop=False)
                if isinstance(item.optional_vars, ast.Name):
                    self._translator.dag_variables[item.optional_vars.id] = report
            elif self._is(call, "TaskGroup"):
                scope = self._group_scope(call, scope)
        self._body(node.body, scope)

    def _group_scope(self, call: ast.Call, scope: Scope) -> Scope:
        given = {each.arg: each.value for each in call.keywords}
        node = call.args[0] if call.args else given.get("group_id")
        prefixed = self._translator.constants.value_or(given.get("prefix_group_id"), True)
        return in_group(scope, self._translator.constants.text(node), is_prefixed=bool(prefixed))

    # Definitions.

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        for decorator in node.decorator_list:
            func = decorator.func if isinstance(decorator, ast.Call) else decorator
            path = self._names.airflow_path(func)
            if path is None:
                continue
            call = decorator if isinstance(decorator, ast.Call) else None
            kind = task_kind(path)
            if last_part(path) == "dag":
                self._dag_function(node, call, decorator, scope)
                return
            if kind is not None:
                options = tuple(call.keywords) if call is not None else ()
                made = TaskFunction(node, kind, options, scope)
                self._translator.task_functions[node.name] = made
                self._translator.handled.add(node.name)
                return
            self._refuse(decorator, f"@{last_part(path)}: {advice_on(path)}")
            return
        inner = scope.inside(node.body)
        self._body(node.body, inner if scope.dag is None else replace(inner, dag=None, prefix=""))

    def _dag_function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        call: ast.Call | None,
        decorator: ast.expr,
        scope: Scope,
    ) -> None:
        dag = DagTranslation(self._translator, call, decorator, default_id=node.name)
        self.dags.append(dag)
        text = dag.translate(
            self._translator.need("dag"), self._translator.source.indent(decorator)
        )
        self._translator.edits.replace_node(decorator, text)
        inner = scope.inside(node.body)
        self._body(node.body, replace(inner, dag=dag.report, prefix="", in_loop=False))

    def _class(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            path = self._names.airflow_path(base)
            name = last_part(path) if path else getattr(base, "id", "")
            if name in self._operators or (
                path and name not in KEPT and name.endswith(("Operator", "Sensor", "Hook"))
            ):
                self._operators[node.name] = name
                self._translator.handled.add(node.name)
                return

    def _refuse(self, node: ast.AST, message: str) -> None:
        """Say why the file cannot be translated."""
        self._translator.on_file(Level.EDIT, node, message)
        self._translator.handled.add("")

    # Expressions.

    def _expression(self, node: ast.AST, scope: Scope, *, is_argument: bool = False) -> None:
        """Translate the calls in an expression, inner ones first."""
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            scope = replace(scope, in_loop=True)
        is_task_call = isinstance(node, ast.Call) and self._task_function(node.func) is not None
        for child in ast.iter_child_nodes(node):
            inner = is_task_call or (is_argument and not isinstance(node, ast.BinOp))
            self._expression(child, scope, is_argument=inner)
        if isinstance(node, ast.Call):
            self._call(node, scope, is_argument=is_argument)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.RShift | ast.LShift):
            self._remove_label(node)

    def _call(self, node: ast.Call, scope: Scope, *, is_argument: bool) -> None:
        function = self._task_function(node.func)
        if function is not None:
            self._task_call(node, function, scope, is_argument=is_argument)
            return
        root = node.func
        if isinstance(root, ast.Attribute) and root.attr in _MAPPING:
            root = root.value
            if isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute):
                root = root.func.value
        path = self._names.airflow_path(root)
        name = last_part(path) if path else ""
        if isinstance(node.func, ast.Attribute) and self._plain_method(node, node.func):
            return
        if name == "DAG":
            self._dag(node, scope)
        elif path is not None and name not in KEPT:
            self._airflow_call(node, name, scope)
        elif path is None and self._is_unknown_operator(node, root):
            self._operator(node, ast.unparse(root), _UNKNOWN_OPERATOR, scope)

    def _airflow_call(self, node: ast.Call, name: str, scope: Scope) -> None:
        operator = operator_of(name)
        is_partial = isinstance(node.func, ast.Attribute) and node.func.attr == "partial"
        if operator is not None and not is_partial:
            self._operator(node, name, operator, scope)
        elif name == "cross_downstream" and len(node.args) == 2:  # noqa: PLR2004 - two lists
            first, second = (self._translator.text(each) for each in node.args)
            text = f"[task >> {second} for task in {first}]"
            self._translator.edits.replace_node(node, text)
        elif name == "days_ago":
            days = self._translator.text(node.args[0]) if node.args else "0"
            self._translator.need("pendulum", "")
            text = f'pendulum.today("UTC").subtract(days={days})'
            self._translator.edits.replace_node(node, text)

    def _is_unknown_operator(self, node: ast.Call, root: ast.expr) -> bool:
        if isinstance(root, ast.Name) and root.id in self._operators:
            return True
        path = self._names.path(root) or ""
        named = last_part(path) or getattr(root, "id", "")
        is_known = named in {"SparkTask", "PythonTask", "StepFunctionsTask"}
        has_id = any(each.arg == "task_id" for each in node.keywords)
        return has_id and not is_known and named.endswith(("Operator", "Sensor"))

    def _dag(self, node: ast.Call, scope: Scope) -> None:
        dag = DagTranslation(self._translator, node, node)
        self.dags.append(dag)
        if scope.in_loop or scope.around:
            where = "loop" if scope.in_loop else "function"
            message = f"a {where} that makes DAGs moves as it is when what it uses moves"
            self._translator.on_dag(dag.report, Level.MOVES, node, message)
        indent = self._translator.source.indent(node)
        text = dag.translate(self._translator.need("DAG"), indent)
        self._translator.edits.replace_node(node, text)

    def _operator(self, node: ast.Call, name: str, entry: Operator, scope: Scope) -> None:
        scope = replace(scope, dag=self._dag_of(node, scope))
        if not self._translator.report.dags:
            self._translator.report.dags.append(DagReport("(of the caller)", node.lineno))
        statement = self._translator.statement
        count = len(statement.after)
        text, ref = OperatorCall(self._translator, node, name, entry, scope).translate()
        edges = [line for line in statement.after[count:] if "{}" in line]
        del statement.after[count:]
        if edges:
            ref = self._place(node, text, ref, statement.target or f"{name}_task", edges)
        else:
            self._translator.edits.replace_node(node, text)
        self._translator.results[id(node)] = ref

    def _dag_of(self, node: ast.Call, scope: Scope) -> DagReport | None:
        for keyword in node.keywords:
            if keyword.arg == "dag" and isinstance(keyword.value, ast.Name):
                return self._translator.dag_variables.get(keyword.value.id, scope.dag)
        return scope.dag

    def _task_call(
        self, node: ast.Call, function: TaskFunction, scope: Scope, *, is_argument: bool
    ) -> None:
        if not self._translator.report.dags:
            self._translator.report.dags.append(DagReport("(of the caller)", node.lineno))
        text, step, ref = TaskCall(self._translator, node, function, scope).translate()
        variables = dict.fromkeys(each.variable for each in step.inputs)
        edges = [f"{variable} >> {{}}" for variable in variables if variable is not None]
        if edges or is_argument:
            ref = self._place(node, text, ref, f"{function.node.name}_task", edges)
        else:
            self._translator.edits.replace_node(node, text)
        self._translator.results[id(node)] = ref

    def _place(
        self, node: ast.Call, text: str, ref: TaskRef, name: str, edges: list[str]
    ) -> TaskRef:
        """Give a task a variable, and link it to those that it reads."""
        statement = self._translator.statement
        if statement.direct is node and statement.target is not None:
            self._translator.edits.replace_node(node, text)
            statement.after += [edge.format(statement.target) for edge in edges]
            return replace(ref, variable=statement.target)
        variable = self._translator.free_name(name)
        if statement.direct is node:
            statement.text = f"{variable} = {text}"
            statement.after += [edge.format(variable) for edge in edges]
        else:
            self._translator.edits.replace_node(node, variable)
            statement.before.append(f"{variable} = {text}")
            statement.before += [edge.format(variable) for edge in edges]
        return replace(ref, variable=variable)

    def _task_function(self, node: ast.expr) -> TaskFunction | None:
        """Return the function that a call makes a task of."""
        while True:
            match node:
                case ast.Name(id=name):
                    return self._translator.task_functions.get(name)
                case ast.Attribute(attr="expand" | "expand_kwargs", value=inner):
                    node = inner
                case ast.Call(func=ast.Attribute(attr="override" | "partial", value=inner)):
                    node = inner
                case _:
                    return None

    def _plain_method(self, node: ast.Call, func: ast.Attribute) -> bool:
        """Write methods that tasks do not have here in another way."""
        owner = self._translator.text(func.value)
        if func.attr in {"set_upstream", "set_downstream"} and len(node.args) == 1:
            operator = "<<" if func.attr == "set_upstream" else ">>"
            other = self._translator.text(node.args[0])
            self._translator.edits.replace_node(node, f"{owner} {operator} {other}")
            return True
        if func.attr in {"as_setup", "as_teardown"}:
            self._translator.on_file(Level.EDIT, node, f"{func.attr}: {ADVICE['teardown']}")
            self._translator.edits.replace_node(node, owner)
            return True
        return False

    def _remove_label(self, node: ast.BinOp) -> None:
        if isinstance(node.right, ast.Call) and self._is(node.right, "Label"):
            self._translator.edits.replace_node(node, self._translator.text(node.left))

    def _is(self, call: ast.Call, name: str) -> bool:
        path = self._names.airflow_path(call.func)
        return path is not None and last_part(path) == name
