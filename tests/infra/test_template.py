"""The template: as the models, the settings and the rules of the house want it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from lamplighter.backfill.advance import AdvanceReport
from lamplighter.entry import NAMESPACE, BatchReport
from lamplighter.events.ingest import IngestReport
from lamplighter.executors.aws_lambda import MAX_EVENT_AGE, MAX_RETRIES
from lamplighter.registry.register import RegisterReport
from lamplighter.runs.decision import RunsReport
from lamplighter.scheduler.claim import ClaimReport
from lamplighter.scheduler.tick import TickReport
from lamplighter.settings import Settings, output_key
from lamplighter.store.tables import table_definitions
from lamplighter.streams.delivery_rounds import WatchReport
from lamplighter.sweep import SweepReport
from lamplighter.topology import FUNCTIONS, MAX_RECEIVES, QUEUES, URL_SETTINGS, queues_of
from lamplighter_infra import layers
from lamplighter_infra.functions import LIMITS
from tests.infra.accepted import ACCEPTED
from tests.infra.board import drawn_metrics
from tests.infra.synthesis import ACCOUNT, REGION, Synthesis, short, synthesize

STAGES = pytest.mark.parametrize("stage", ["dev", "prod"])

_NAMES = {*(field.name for field in fields(Settings)), *URL_SETTINGS.values()}

# W3005: the CDK itself states dependencies that are there already.
_NOT_LINTED = ("W3005",)


@STAGES
def test_template_has_nothing_for_the_linter(stage: str, request: pytest.FixtureRequest) -> None:
    """The linter of CloudFormation finds neither errors nor warnings."""
    synthesis: Synthesis = request.getfixturevalue(stage)
    lint = Path(sys.executable).with_name("cfn-lint")
    command: list[str | Path] = [lint, "--ignore-checks", *_NOT_LINTED, "--", synthesis.path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_findings_of_nag_have_reasons(dev: Synthesis, prod: Synthesis) -> None:
    """Each finding of the AWS Solutions rules has a reason to stay, and each reason is used."""
    findings = [*dev.findings, *prod.findings]

    def accepts(accepted: Any, finding: str, place: str) -> bool:
        return fnmatchcase(finding, accepted.finding) and fnmatchcase(place, accepted.place)

    open_ = [each for each in findings if not any(accepts(one, *each) for one in ACCEPTED)]
    unused = [one for one in ACCEPTED if not any(accepts(one, *each) for each in findings)]
    assert (open_, unused) == ([], [])


def test_tables_are_those_of_the_models(prod: Synthesis) -> None:
    """Names, keys, indexes, time to live and safeguards of all tables come from the models."""
    made = {each["TableName"]: each for each in prod.resources("AWS::DynamoDB::Table").values()}
    wanted = table_definitions(f"{prod.config.stack_name}-")
    assert set(made) == {table.name for table in wanted}
    for table in wanted:
        found = made[table.name]
        for name, value in table.create.items():
            assert _sorted(found[name]) == _sorted(value), (table.name, name)
        assert ("GlobalSecondaryIndexes" in found) == ("GlobalSecondaryIndexes" in table.create)
        ttl = found.get("TimeToLiveSpecification", {}).get("AttributeName")
        recovery = found["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        assert (ttl, recovery) == (table.ttl_attribute, table.has_point_in_time_recovery)
        assert found["SSESpecification"]["SSEType"] == "KMS"


def test_every_end_of_a_python_task_is_told(prod: Synthesis) -> None:
    """Of each invocation, however it has ended; one that dies before it claims is repeated."""
    every = prod.resources("AWS::Lambda::EventInvokeConfig").values()
    (made,) = (each for each in every if "DestinationConfig" in each)
    ends = made["DestinationConfig"]
    assert ends["OnSuccess"] == ends["OnFailure"]
    assert "jobstates" in json.dumps(ends["OnFailure"]).lower()
    assert made["MaximumEventAgeInSeconds"] == MAX_EVENT_AGE.total_seconds()
    assert made["MaximumRetryAttempts"] == MAX_RETRIES > 0


def _sorted(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return sorted(value, key=lambda each: json.dumps(each, sort_keys=True))


@STAGES
def test_data_outlive_the_stack_unless_they_may_not(
    stage: str, request: pytest.FixtureRequest
) -> None:
    """Deleting a stack deletes tables, bucket and key in development only."""
    synthesis: Synthesis = request.getfixturevalue(stage)
    kinds = {"AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::KMS::Key"}
    found = [each for each in synthesis.template["Resources"].values() if each["Type"] in kinds]
    # What a first deployment made before it failed is not in the way of the second.
    policies = {"dev": ("Delete", "Delete"), "prod": ("RetainExceptOnCreate", "Retain")}
    assert {(each["DeletionPolicy"], each["UpdateReplacePolicy"]) for each in found} == {
        policies[stage]
    }
    protected = {
        each["DeletionProtectionEnabled"]
        for each in synthesis.resources("AWS::DynamoDB::Table").values()
    }
    assert protected == {stage == "prod"}


@STAGES
def test_environment_is_that_of_the_outputs(
    stage: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions and the command line read the same settings, under the names of the fields.

    Only dead-letter queues of others are left out: an environment has 4 KB.
    """
    synthesis: Synthesis = request.getfixturevalue(stage)
    told = Settings.from_outputs(synthesis.outputs)
    assert set(synthesis.outputs) <= {output_key(name) for name in _NAMES}
    for function in set(FUNCTIONS) - {"sandbox"}:
        variables = synthesis.variables(function)
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(name, value)
            own = {queue.dlq for queue in queues_of(function)}
            urls = {name: url for name, url in told.queue_urls.items() if name in {*QUEUES, *own}}
            assert Settings.from_environment() == replace(told, queue_urls=urls)
        ours = {name for name in variables if name.startswith("LAMPLIGHTER_")}
        assert ours == {"LAMPLIGHTER_SETTINGS"}


def test_settings_name_everything(prod: Synthesis) -> None:
    """No resource that the library may ask for is left without a name."""
    told = Settings.from_outputs(prod.outputs)
    unnamed = {field.name for field in fields(Settings) if getattr(told, field.name) == ""}
    assert unnamed == set()
    assert set(told.queue_urls) == set(URL_SETTINGS)


def test_author_code_is_told_nothing_of_the_deployment(dev: Synthesis) -> None:
    """The sandbox has no setting in its environment."""
    assert set(dev.variables("sandbox")) == {"POWERTOOLS_LOG_LEVEL"}


@STAGES
def test_queues_have_dead_letters_time_and_alarms(
    stage: str, request: pytest.FixtureRequest
) -> None:
    """Each queue that wakes a function gives it time, and has a queue for dead letters.

    People hear of messages that wait and of dead letters.
    """
    synthesis: Synthesis = request.getfixturevalue(stage)
    queues = synthesis.resources("AWS::SQS::Queue")
    dead = {short(each["RedrivePolicy"]["deadLetterTargetArn"]) for each in _live(queues)}
    assert {f"<{name}>" for name, each in queues.items() if each not in _live(queues)} == dead
    assert {each["RedrivePolicy"]["maxReceiveCount"] for each in _live(queues)} == {MAX_RECEIVES}
    timeouts = {name: LIMITS[queue.consumer].timeout_seconds for name, queue in QUEUES.items()}
    for each in _live(queues):
        name = each["QueueName"].removeprefix(f"{synthesis.config.stack_name}-")
        assert each["VisibilityTimeout"] >= 6 * timeouts[name]
    watched: dict[str, set[str]] = {}
    for alarm in synthesis.resources("AWS::CloudWatch::Alarm").values():
        for dimension in alarm["Dimensions"]:
            if dimension["Name"] == "QueueName":
                value = short(dimension["Value"])
                watched.setdefault(alarm["MetricName"], set()).add(value)
    assert watched == {
        "ApproximateAgeOfOldestMessage": {
            f"<{name}>" for name, each in queues.items() if each in _live(queues)
        },
        "ApproximateNumberOfMessagesVisible": dead,
    }


def _live(queues: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in queues.values() if "RedrivePolicy" in each]


def test_batches_are_answered_message_by_message(prod: Synthesis) -> None:
    """Every queue that wakes a function lets single messages fail, and has a limit."""
    found = list(prod.resources("AWS::Lambda::EventSourceMapping").values())
    assert len(found) == len(QUEUES) + len(prod.config.watch_queues)
    assert all(each["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for each in found)
    assert all(each["ScalingConfig"]["MaximumConcurrency"] >= 2 for each in found)


def test_snapshots_are_what_is_woken(prod: Synthesis) -> None:
    """A function with a snapshot is woken by its alias: its newest code would start without."""
    aliases = prod.resources("AWS::Lambda::Alias")
    mappings = prod.resources("AWS::Lambda::EventSourceMapping").values()
    woken = [json.dumps(each["FunctionName"]) for each in mappings]
    assert len(aliases) == len(prod.config.snap_start) == 2
    assert all(any(alias in text for text in woken) for alias in aliases)


def test_new_library_is_a_new_version(tmp_path: Path) -> None:
    """A snapshot of a function is made anew when only its layers have changed."""
    versions: list[str] = []
    for content in ("before", "after"):
        folder = tmp_path / f"core-{content}"
        (folder / "python").mkdir(parents=True)
        (folder / "python" / "lamplighter.py").write_text(f"# {content}")
        with patch.multiple(
            layers,
            core=Mock(return_value=folder),
            dependencies=Mock(return_value=folder),
        ):
            made = synthesize({"snap_start": ["claim"]}, has_layers=True)
        versions += made.resources("AWS::Lambda::Version")
    assert len(set(versions)) == 2


def test_endless_chains_of_messages_are_not_taken_for_mistakes(prod: Synthesis) -> None:
    """Functions that send to the queues that wake them are let do so: schedules never end.

    So is `task`, which stands between two of them.
    """
    allowed = {
        each["FunctionName"].removeprefix(f"{prod.config.stack_name}-")
        for each in prod.resources("AWS::Lambda::Function").values()
        if each.get("RecursiveLoop") == "Allow"
    }
    assert allowed == {"task", *(queue.consumer for queue in QUEUES.values())}


def test_files_of_jobs_are_there_before_jobs_look_for_them(prod: Synthesis) -> None:
    """The function that starts jobs is replaced after the files of its jobs were copied."""
    resources = prod.template["Resources"]
    (submit,) = (
        each
        for each in resources.values()
        if each.get("Properties", {}).get("FunctionName") == f"{prod.config.stack_name}-submit"
    )
    waits_for = {resources[name]["Type"] for name in submit["DependsOn"]}
    assert "Custom::CDKBucketDeployment" in waits_for


def test_queues_of_others_may_have_any_name() -> None:
    """Their names may be those of our queues, or differ only in signs that ids do not have."""
    named = ["events", "raw-a", "raw.a", "rawA"]
    made = synthesize({"watch_queues": named})
    assert len(made.resources("AWS::Lambda::EventSourceMapping")) == len(QUEUES) + len(named)


def test_two_regions_have_nothing_of_one_name(prod: Synthesis) -> None:
    """What has a name in the whole account has the region in it."""
    kinds = {
        "AWS::IAM::Role": "RoleName",
        "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
        "AWS::CloudWatch::Dashboard": "DashboardName",
        "AWS::S3::Bucket": "BucketName",
    }
    for kind, name in kinds.items():
        named = [each[name] for each in prod.resources(kind).values() if name in each]
        assert named
        assert all(short(each).endswith(f"-{REGION}") for each in named), kind


@STAGES
def test_numbers_that_are_watched_are_reported(stage: str, request: pytest.FixtureRequest) -> None:
    """Every number of ours on the dashboard, and every one with an alarm, is one of a report."""
    synthesis: Synthesis = request.getfixturevalue(stage)
    watched = {*_alarmed(synthesis), *_drawn(synthesis)}
    assert watched >= {("tick", "BacklogSeconds"), ("settle", "JobDollars")}
    reported = {
        (function, field.name.title().replace("_", ""))
        for function, reports in _REPORTS.items()
        for report in reports
        for field in fields(report)
    }
    assert watched - reported == set()


_REPORTS: dict[str, list[type]] = {
    "register": [RegisterReport, BatchReport],
    "tick": [TickReport],
    "claim": [ClaimReport, AdvanceReport, BatchReport],
    "ingest": [IngestReport],
    "watch": [WatchReport],
    "submit": [RunsReport, BatchReport],
    "settle": [RunsReport, BatchReport],
    "sweep": [SweepReport],
}


def _alarmed(synthesis: Synthesis) -> Iterator[tuple[str, str]]:
    for alarm in synthesis.resources("AWS::CloudWatch::Alarm").values():
        if alarm["Namespace"] == NAMESPACE:
            dimensions = {each["Name"]: each["Value"] for each in alarm["Dimensions"]}
            assert dimensions == {
                "service": dimensions["service"],
                "stack": synthesis.config.stack_name,
            }
            yield dimensions["service"], alarm["MetricName"]


def _drawn(synthesis: Synthesis) -> Iterator[tuple[str, str]]:
    for metric in drawn_metrics(synthesis):
        if metric.namespace == NAMESPACE:
            assert metric.dimensions["stack"] == synthesis.config.stack_name
            yield metric.dimensions["service"], metric.name


def test_everything_is_encrypted_with_our_key(prod: Synthesis) -> None:
    """Queues, the topic and the logs of functions have the key of the deployment."""
    key = next(iter(prod.resources("AWS::KMS::Key")))
    encrypted = {
        "AWS::SQS::Queue": "KmsMasterKeyId",
        "AWS::SNS::Topic": "KmsMasterKeyId",
        "AWS::Logs::LogGroup": "KmsKeyId",
    }
    for kind, name in encrypted.items():
        for logical_id, properties in prod.resources(kind).items():
            if logical_id.startswith("RuntimeLog"):
                continue  # of a function of the CDK, which sees nothing but files of ours
            assert short(properties[name]) == f"<{key}>", logical_id


def test_services_that_send_to_us_may_use_the_key(prod: Synthesis) -> None:
    """Services use the key for our account, our queues or our logs, and for nothing else.

    EventBridge and S3 are known to KMS by the queue that they send to, which SQS tells it.
    """
    (key,) = prod.resources("AWS::KMS::Key").values()
    admitted = {}
    for statement in key["KeyPolicy"]["Statement"]:
        (who,) = map(short, statement["Principal"].values())
        tests = statement.get("Condition", {}).values()
        values = {name: value for test in tests for name, value in test.items()}
        is_of_logs = "kms:EncryptionContext:aws:logs:arn" in values
        admitted[who] = {name: is_of_logs or short(value) for name, value in values.items()}
    ours = {
        "kms:EncryptionContext:aws:sqs:arn": (
            f"arn:aws:sqs:{REGION}:{ACCOUNT}:{prod.config.stack_name}-*"
        )
    }
    topic = prod.config.event_senders[1]
    assert admitted == {
        f"arn:aws:iam::{ACCOUNT}:root": {},
        "events.amazonaws.com": ours,
        "s3.amazonaws.com": ours,
        "cloudwatch.amazonaws.com": {"aws:SourceAccount": ACCOUNT},
        f"logs.{REGION}.amazonaws.com": {"kms:EncryptionContext:aws:logs:arn": True},
        "sns.amazonaws.com": {"aws:SourceArn": topic, "aws:SourceAccount": ACCOUNT},
        prod.config.event_senders[0]: {"kms:ViaService": f"sqs.{REGION}.amazonaws.com"},
    }


def test_services_send_to_queues_for_a_named_account_only() -> None:
    """The ARN of a bucket has no account: another one might own it once it was deleted."""
    senders = {
        "arn:aws:s3:::landing": ACCOUNT,
        f"arn:aws:events:{REGION}:{ACCOUNT}:rule/shop": ACCOUNT,
        f"arn:aws:sns:{REGION}:222222222222:prices": "222222222222",
    }
    made = synthesize({"stage": "dev", "event_senders": [*senders]})
    accounts = {}
    for policy in made.resources("AWS::SQS::QueuePolicy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            if "Service" in statement["Principal"]:
                condition = statement["Condition"]
                arn = short(condition["ArnEquals"]["aws:SourceArn"])
                accounts[arn] = condition["StringEquals"]["aws:SourceAccount"]
    assert accounts.items() >= senders.items()
    assert {accounts[arn] for arn in accounts.keys() - senders.keys()} == {ACCOUNT}


def test_what_does_not_arrive_is_told(prod: Synthesis) -> None:
    """There is an alarm for each rule whose queue takes nothing, and each function that fails."""
    alarms = list(prod.resources("AWS::CloudWatch::Alarm").values())
    rules = {
        dimension["Value"]
        for alarm in alarms
        if alarm["MetricName"] == "FailedInvocations"
        for dimension in alarm["Dimensions"]
    }
    named = {each["Name"] for each in prod.resources("AWS::Events::Rule").values()}
    assert rules == {name for name in named if not name.endswith(("-tick", "-sweep", "-watch"))}
    failing = {
        dimension["Value"]
        for alarm in alarms
        if alarm["MetricName"] == "Failed"
        for dimension in alarm["Dimensions"]
        if dimension["Name"] == "service"
    }
    assert failing == {queue.consumer for queue in QUEUES.values()}


def test_jobs_read_the_named_secrets_and_no_others(dev: Synthesis, prod: Synthesis) -> None:
    """What the deployer names is all; without the flag, jobs may read no secret."""
    service = {"secretsmanager:GetSecretValue", "ssm:GetParameter"}
    found: dict[str, dict[str, list[str]]] = {}
    for stage, made in {"dev": dev, "prod": prod}.items():
        found[stage] = {}
        for role in made.resources("AWS::IAM::Role").values():
            for policy in role.get("Policies", ()):
                for statement in policy["PolicyDocument"]["Statement"]:
                    action, named = statement["Action"], statement["Resource"]
                    if isinstance(action, str) and action in service:
                        named = named if isinstance(named, list) else [named]
                        found[stage][action] = [short(each) for each in named]
                    else:
                        assert not service & {*action}
    here = f"{REGION}:{ACCOUNT}"
    assert found["dev"] == {}
    assert found["prod"] == {
        "secretsmanager:GetSecretValue": [f"arn:aws:secretsmanager:{here}:secret:warehouse-??????"],
        "ssm:GetParameter": [
            f"arn:aws:ssm:{here}:parameter/lake/key",
            f"arn:aws:ssm:{here}:parameter/token",
        ],
    }


def test_alarms_may_publish(prod: Synthesis) -> None:
    """The policy of the topic admits CloudWatch, of this account only."""
    (policy,) = prod.resources("AWS::SNS::TopicPolicy").values()
    allowed = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    assert [each["Principal"] for each in allowed] == [{"Service": "cloudwatch.amazonaws.com"}]
    assert allowed[0]["Condition"] == {"StringEquals": {"aws:SourceAccount": ACCOUNT}}


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("jobstates", {"state": ["RUNNING", "SUCCESS", "FAILED", "CANCELLED"]}),
        ("jobbills", {"resourceUtilizationFinal": [True]}),
    ],
)
def test_jobs_of_others_are_not_listened_to(
    prod: Synthesis, name: str, passes: dict[str, list[object]]
) -> None:
    """States and final bills of jobs pass only from the application of the deployment."""
    rules = prod.resources("AWS::Events::Rule").values()
    (rule,) = [each for each in rules if each.get("Name") == f"{prod.config.stack_name}-{name}"]
    pattern = rule["EventPattern"]
    assert pattern["detail"].items() >= passes.items()
    application = next(iter(prod.resources("AWS::EMRServerless::Application")))
    assert pattern["source"] == ["aws.emr-serverless"]
    assert [short(each) for each in pattern["detail"]["applicationId"]] == [f"<{application}>"]


def test_executions_of_others_are_not_listened_to(prod: Synthesis) -> None:
    """Changes of executions pass only from the state machines that a flag names."""
    rules = prod.resources("AWS::Events::Rule").values()
    (rule,) = [each for each in rules if each.get("Name") == f"{prod.config.stack_name}-executions"]
    assert rule["EventPattern"]["source"] == ["aws.states"]
    assert rule["EventPattern"]["detail-type"] == ["Step Functions Execution Status Change"]
    machines = [short(each) for each in rule["EventPattern"]["detail"]["stateMachineArn"]]
    start = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine"
    assert machines == [f"{start}:export", f"{start}:Crawl_2"]
    settings = json.loads(prod.variables("submit")["LAMPLIGHTER_SETTINGS"])
    assert settings["state_machines"] == ["export", "Crawl_2"]
    assert settings["state_machine_prefix"] == f"{start}:"


def test_stack_without_state_machines_may_start_none() -> None:
    """Without the flag there is no right on any, and no rule."""
    made = synthesize({"stage": "dev"})
    assert "states:" not in json.dumps(made.template)


def test_sandbox_in_a_network_reaches_only_s3(prod: Synthesis) -> None:
    """The walls round author code have one door, which leads to the endpoint of S3."""
    groups = prod.resources("AWS::EC2::SecurityGroup")
    (walls,) = [each for name, each in groups.items() if "Sandbox" in name]
    rules = prod.resources("AWS::EC2::SecurityGroupEgress")
    ways = [
        *walls.get("SecurityGroupEgress", ()),
        *(each for name, each in rules.items() if "Sandbox" in name),
    ]
    destinations = {each.get("DestinationPrefixListId") or each.get("CidrIp") for each in ways}
    assert destinations == {prod.config.s3_prefix_list}


def test_named_senders_may_send_events(prod: Synthesis) -> None:
    """Who sends events from outside is named, and may do nothing else."""
    senders = set()
    for policy in prod.resources("AWS::SQS::QueuePolicy").values():
        for statement in policy["PolicyDocument"]["Statement"]:
            if statement["Effect"] == "Allow":
                assert statement["Action"] == "sqs:SendMessage"
                condition = statement.get("Condition", {}).get("ArnEquals", {})
                senders.add(short(condition.get("aws:SourceArn") or statement["Principal"]["AWS"]))
    named = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{prod.config.stack_name}"
    names = ("jobstates", "jobbills", "executions", "watchedbuckets", "watchedevents")
    rules = {f"{named}-{name}" for name in names}
    bucket = f"arn:aws:s3:::{prod.config.stack_name}-{ACCOUNT}-{REGION}"
    assert senders == {*prod.config.event_senders, *rules, bucket}


def test_stack_for_an_emulator_has_what_it_can_make() -> None:
    """An emulator is asked for nothing that it does not have."""
    made = synthesize({"target": "local", "emr_endpoint": "http://127.0.0.1:1"})
    kinds = {each["Type"] for each in made.template["Resources"].values()}
    assert not kinds & {"AWS::EMRServerless::Application", "Custom::CDKBucketDeployment"}
    variables = made.variables("submit")
    assert variables["AWS_ENDPOINT_URL_EMR_SERVERLESS"] == "http://127.0.0.1:1"
