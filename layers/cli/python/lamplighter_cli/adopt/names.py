"""The one table of Airflow's names: what each becomes here, or what to do instead.

Airflow has moved its modules often, so names are found by their last part, wherever they are
imported from.
"""

from typing import NamedTuple

from lamplighter_cli.adopt.findings import Level


class Operator(NamedTuple):
    """What becomes of an operator, and what its author should know."""

    how: str
    level: Level
    advice: str


# Names that have a counterpart of the same meaning: its module and its name.
KEPT: dict[str, tuple[str, str]] = {
    "DAG": ("lamplighter", "DAG"),
    "dag": ("lamplighter", "dag"),
    "Asset": ("lamplighter", "Asset"),
    "Dataset": ("lamplighter", "Asset"),
    "AssetAlias": ("lamplighter", "AssetAlias"),
    "DatasetAlias": ("lamplighter", "AssetAlias"),
    "AssetAll": ("lamplighter", "AssetAll"),
    "DatasetAll": ("lamplighter", "AssetAll"),
    "AssetAny": ("lamplighter", "AssetAny"),
    "DatasetAny": ("lamplighter", "AssetAny"),
    "AssetWatcher": ("lamplighter", "AssetWatcher"),
    "Param": ("lamplighter", "Param"),
    "TaskGroup": ("lamplighter", "TaskGroup"),
    "chain": ("lamplighter", "chain"),
    "DagRunInfo": ("lamplighter.timetables.base", "DagRunInfo"),
    "DataInterval": ("lamplighter.timetables.base", "DataInterval"),
    "TimeRestriction": ("lamplighter.timetables.base", "TimeRestriction"),
    "Timetable": ("lamplighter.timetables.base", "Timetable"),
    "CronDataIntervalTimetable": ("lamplighter.timetables.interval", "CronDataIntervalTimetable"),
    "DeltaDataIntervalTimetable": ("lamplighter.timetables.interval", "DeltaDataIntervalTimetable"),
    "CronTriggerTimetable": ("lamplighter.timetables.trigger", "CronTriggerTimetable"),
    "DeltaTriggerTimetable": ("lamplighter.timetables.trigger", "DeltaTriggerTimetable"),
    "MultipleCronTriggerTimetable": (
        "lamplighter.timetables.trigger",
        "MultipleCronTriggerTimetable",
    ),
    "CronPartitionTimetable": ("lamplighter.timetables.trigger", "CronPartitionTimetable"),
    "EventsTimetable": ("lamplighter.timetables.events", "EventsTimetable"),
    "NullTimetable": ("lamplighter.timetables.simple", "NullTimetable"),
    "OnceTimetable": ("lamplighter.timetables.simple", "OnceTimetable"),
    "ContinuousTimetable": ("lamplighter.timetables.simple", "ContinuousTimetable"),
    "AssetOrTimeSchedule": ("lamplighter.timetables.assets", "AssetOrTimeSchedule"),
    "DatasetOrTimeSchedule": ("lamplighter.timetables.assets", "AssetOrTimeSchedule"),
    "AirflowPlugin": ("lamplighter.plugins_manager", "AirflowPlugin"),
    "BaseEventTrigger": ("lamplighter.triggers.base", "BaseEventTrigger"),
    "BaseTrigger": ("lamplighter.triggers.base", "BaseTrigger"),
    "TriggerEvent": ("lamplighter.triggers.base", "TriggerEvent"),
}

_SENSOR = "nothing here waits by asking again and again"
_WATCH = f"{_SENSOR}: declare an Asset with an AssetWatcher, and schedule the DAG on that asset"
_S3 = (
    f"{_SENSOR}: schedule the DAG on an Asset with"
    " AssetWatcher(name, trigger=S3ObjectTrigger(bucket, prefix))"
)
_STATES = "becomes an execution of a state machine of yours: make it with the state shown"
_CLUSTER = "EMR Serverless needs no cluster: remove the task, whose step does nothing"
_DAGS = "let the other DAG's last task have an Asset in outlets, and put it into this schedule"
_SQL = "connect in a function of jobs/ with context.secret(…), or query Athena or the Redshift Data"
_SQL = f"{_SQL} API in a state machine"
_CONTAINER = "run the container with ECS or Batch in a state machine, and start that with"
_CONTAINER = f"{_CONTAINER} StepFunctionsTask"
_BRANCH = (
    "there is no branching: let the first task of each branch raise SkipStep when its branch is not"
    " taken, and give what comes after trigger_rule='none_failed_min_one_success'"
)

OPERATORS: dict[str, Operator] = {
    "SparkSubmitOperator": Operator("spark_submit", Level.CHANGE, "becomes a SparkTask"),
    "EmrServerlessStartJobOperator": Operator("emr_serverless", Level.CHANGE, "becomes SparkTask"),
    "EmrAddStepsOperator": Operator("emr_steps", Level.CHANGE, "becomes a SparkTask"),
    "PythonOperator": Operator("python", Level.CHANGE, "becomes a PythonTask"),
    "ShortCircuitOperator": Operator(
        "short_circuit",
        Level.CHANGE,
        "becomes a PythonTask that skips its step if it returns false",
    ),
    "BashOperator": Operator("bash", Level.CHANGE, "becomes a task"),
    "EmptyOperator": Operator("empty", Level.CHANGE, "becomes a step that does nothing"),
    "DummyOperator": Operator("empty", Level.CHANGE, "becomes a step that does nothing"),
    "BranchPythonOperator": Operator("none", Level.CANNOT, _BRANCH),
    "BranchDayOfWeekOperator": Operator("none", Level.CANNOT, _BRANCH),
    "BranchDateTimeOperator": Operator("none", Level.CANNOT, _BRANCH),
    "BranchSQLOperator": Operator("none", Level.CANNOT, _BRANCH),
    "LatestOnlyOperator": Operator(
        "none", Level.CANNOT, "pass catchup=False to the DAG: then only the newest interval runs"
    ),
    "PythonVirtualenvOperator": Operator(
        "none", Level.CANNOT, "put pure packages into lib/, and use PythonTask"
    ),
    "ExternalPythonOperator": Operator(
        "none", Level.CANNOT, "put pure packages into lib/, and use PythonTask"
    ),
    "SQLExecuteQueryOperator": Operator("none", Level.CANNOT, _SQL),
    "PostgresOperator": Operator("none", Level.CANNOT, _SQL),
    "MySqlOperator": Operator("none", Level.CANNOT, _SQL),
    "SnowflakeOperator": Operator("none", Level.CANNOT, _SQL),
    "KubernetesPodOperator": Operator("none", Level.CANNOT, _CONTAINER),
    "DockerOperator": Operator("none", Level.CANNOT, _CONTAINER),
    "EmailOperator": Operator(
        "none", Level.CANNOT, "subscribe to the event 'Run Finished' on EventBridge"
    ),
    "SimpleHttpOperator": Operator("none", Level.CANNOT, "call the address in a function of jobs/"),
    "HttpOperator": Operator("none", Level.CANNOT, "call the address in a function of jobs/"),
    "TriggerDagRunOperator": Operator("none", Level.CANNOT, f"{_DAGS} instead"),
    "ExternalTaskSensor": Operator("none", Level.CANNOT, f"{_SENSOR}: {_DAGS}"),
    "ExternalTaskMarker": Operator("none", Level.CANNOT, _DAGS),
    "S3KeySensor": Operator("none", Level.CANNOT, _S3),
    "S3PrefixSensor": Operator("none", Level.CANNOT, _S3),
    "S3KeysUnchangedSensor": Operator("none", Level.CANNOT, _S3),
    "SqsSensor": Operator(
        "none", Level.CANNOT, f"{_SENSOR}: schedule on an Asset with an SqsTrigger as its watcher"
    ),
    "FileSensor": Operator("none", Level.CANNOT, _WATCH),
    "TimeSensor": Operator("none", Level.CANNOT, "put the time into the schedule"),
    "TimeDeltaSensor": Operator("none", Level.CANNOT, "put the delay into the schedule"),
    "DateTimeSensor": Operator("none", Level.CANNOT, "put the time into the schedule"),
    "DayOfWeekSensor": Operator("none", Level.CANNOT, "put the day into the schedule"),
    "SubDagOperator": Operator("none", Level.CANNOT, "use a TaskGroup"),
    "EmrCreateJobFlowOperator": Operator("empty", Level.EDIT, _CLUSTER),
    "EmrTerminateJobFlowOperator": Operator("empty", Level.EDIT, _CLUSTER),
    "EmrJobFlowSensor": Operator("empty", Level.EDIT, _CLUSTER),
    "EmrServerlessCreateApplicationOperator": Operator("empty", Level.EDIT, _CLUSTER),
    "EmrServerlessDeleteApplicationOperator": Operator("empty", Level.EDIT, _CLUSTER),
    "EmrStepSensor": Operator(
        "empty", Level.EDIT, "a SparkTask waits for its job: remove the task"
    ),
    "EmrServerlessJobSensor": Operator(
        "empty", Level.EDIT, "a SparkTask waits for its job: remove the task"
    ),
    "GlueJobOperator": Operator("service", Level.EDIT, _STATES),
    "AwsGlueJobOperator": Operator("service", Level.EDIT, _STATES),
    "GlueCrawlerOperator": Operator("service", Level.EDIT, _STATES),
    "BatchOperator": Operator("service", Level.EDIT, _STATES),
    "AthenaOperator": Operator("service", Level.EDIT, _STATES),
    "AWSAthenaOperator": Operator("service", Level.EDIT, _STATES),
    "EcsRunTaskOperator": Operator("service", Level.EDIT, _STATES),
    "ECSOperator": Operator("service", Level.EDIT, _STATES),
    "RedshiftDataOperator": Operator("service", Level.EDIT, _STATES),
    "LambdaInvokeFunctionOperator": Operator("service", Level.EDIT, _STATES),
    "SageMakerTrainingOperator": Operator("service", Level.EDIT, _STATES),
    "SageMakerProcessingOperator": Operator("service", Level.EDIT, _STATES),
    "SageMakerTransformOperator": Operator("service", Level.EDIT, _STATES),
    "EksPodOperator": Operator("service", Level.EDIT, _STATES),
    "StepFunctionStartExecutionOperator": Operator(
        "state_machine", Level.CHANGE, "becomes a StepFunctionsTask"
    ),
}

# Where the table has no operator of that name: by how the name ends.
BY_ENDING: tuple[tuple[str, Operator], ...] = (
    ("Sensor", Operator("none", Level.CANNOT, _WATCH)),
    ("SensorAsync", Operator("none", Level.CANNOT, _WATCH)),
    (
        "Operator",
        Operator(
            "none",
            Level.CANNOT,
            "has no counterpart: write what it does as a function of jobs/ (PythonTask), a Spark"
            " job (SparkTask) or a state machine (StepFunctionsTask)",
        ),
    ),
)

# The integration of Step Functions that does what an operator does, its constant parameters, and
# its parameters that are arguments of the operator.
STATES: dict[str, tuple[str, dict[str, str]]] = {
    "GlueJobOperator": (
        "glue:startJobRun.sync",
        {"job_name": "JobName", "script_args": "Arguments"},
    ),
    "GlueCrawlerOperator": ("aws-sdk:glue:startCrawler", {"crawler_name": "Name"}),
    "BatchOperator": (
        "batch:submitJob.sync",
        {
            "job_name": "JobName",
            "job_definition": "JobDefinition",
            "job_queue": "JobQueue",
            "container_overrides": "ContainerOverrides",
            "overrides": "ContainerOverrides",
            "parameters": "Parameters",
        },
    ),
    "AthenaOperator": (
        "athena:startQueryExecution.sync",
        {"query": "QueryString", "workgroup": "WorkGroup"},
    ),
    "EcsRunTaskOperator": (
        "ecs:runTask.sync",
        {
            "cluster": "Cluster",
            "task_definition": "TaskDefinition",
            "launch_type": "LaunchType",
            "overrides": "Overrides",
            "network_configuration": "NetworkConfiguration",
        },
    ),
    "RedshiftDataOperator": (
        "aws-sdk:redshiftdata:executeStatement",
        {
            "sql": "Sql",
            "database": "Database",
            "cluster_identifier": "ClusterIdentifier",
            "workgroup_name": "WorkgroupName",
            "db_user": "DbUser",
        },
    ),
    "LambdaInvokeFunctionOperator": (
        "lambda:invoke",
        {"function_name": "FunctionName", "payload": "Payload"},
    ),
    "SageMakerTrainingOperator": ("sagemaker:createTrainingJob.sync", {"config": ""}),
    "SageMakerProcessingOperator": ("sagemaker:createProcessingJob.sync", {"config": ""}),
    "SageMakerTransformOperator": ("sagemaker:createTransformJob.sync", {"config": ""}),
    "EksPodOperator": (
        "eks:runJob.sync",
        {"cluster_name": "ClusterName", "namespace": "Namespace"},
    ),
}
RENAMED_OPERATORS = {
    "AwsGlueJobOperator": "GlueJobOperator",
    "AWSAthenaOperator": "AthenaOperator",
    "ECSOperator": "EcsRunTaskOperator",
}

# Other names: what to do without them.
ADVICE: dict[str, str] = {
    "Variable": "in jobs read context.variables['name'], in templates {{ var.value.name }}; set it"
    " with `lamplighter variables set`",
    "Connection": "put the credentials into Secrets Manager, and read them with context.secret(…)",
    "BaseHook": "put the credentials into Secrets Manager, and read them with context.secret(…)",
    "BaseOperator": "move the body of execute into a function (context) of jobs/, and use"
    " PythonTask",
    "BaseSensorOperator": _WATCH,
    "task_group": "write `with TaskGroup('name'):` around the tasks",
    "task": "write the function into jobs/ and make a PythonTask of it",
    "setup": "there is no setup: make it an ordinary first task",
    "teardown": "there is no teardown: make it a last task with trigger_rule='all_done'",
    "cross_downstream": "link each task of the one list to the other list",
    "get_current_context": "a job gets its context as its argument",
    "Label": "edges have no labels: remove it",
    "XCom": "use context.output and context.input",
    "XComArg": "use context.output and context.input",
    "DagBag": "DAG files only define DAGs",
    "days_ago": "write a fixed start_date: one that moves starts the schedule anew with every push",
    "Pool": "pools are made with `lamplighter pools set`",
    "Stats": "jobs have no metrics of Airflow: log, or put metrics with boto3",
    "conf": "there is no airflow.cfg: use variables of the deployment",
    "TriggerRule": "write the rule as text, such as 'all_done'",
    "PokeReturnValue": _WATCH,
}
HOOK_ADVICE = (
    "hooks and connections stay behind: use boto3 with the role of the job, or a client of"
)
HOOK_ADVICE = f"{HOOK_ADVICE} your own with context.secret(…)"


def last_part(path: str) -> str:
    """Return the last part of a dotted path."""
    return path.rpartition(".")[2]


def operator_of(name: str) -> Operator | None:
    """Return what becomes of an operator or sensor, by its name."""
    found = OPERATORS.get(name)
    if found is None:
        found = next((entry for ending, entry in BY_ENDING if name.endswith(ending)), None)
    return found


def advice_on(path: str) -> str:
    """Return what to do about one of Airflow's names, as a sentence without its subject."""
    found = (_advice_on_part(part) for part in reversed(path.split(".")))
    return next((advice for advice in found if advice is not None), "has no counterpart here")


def _advice_on_part(name: str) -> str | None:
    if name in KEPT:
        module, own = KEPT[name]
        return f"write `from {module} import {own}`"
    if name in ADVICE:
        return ADVICE[name]
    if name.endswith("Hook"):
        return HOOK_ADVICE
    operator = operator_of(name)
    return None if operator is None else operator.advice


def task_kind(path: str) -> str | None:
    """Return the kind of task that a decorator makes: `@task`, `@task.branch` and so on."""
    parts = path.split(".")
    if parts[-1] == "task":
        return "python"
    if len(parts) > 1 and parts[-2] == "task":
        return parts[-1]
    return None
