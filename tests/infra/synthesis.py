"""A stack as CloudFormation would get it, and what it says, as short texts."""

import atexit
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import aws_cdk as cdk
import cdk_nag

from lamplighter_infra.config import Config
from lamplighter_infra.stack import LamplighterStack

ROOT = Path(__file__).parents[2]
REPORT = "validation-report.json"
ACCOUNT, REGION = "111111111111", "eu-central-1"
# Settings that differ from their defaults, as text and as JSON.
SETTINGS: Mapping[str, Any] = {
    "watch_session_seconds": "45",
    "run_retention_days": 400,
    "price_vcpu_hour": "0.06",
    "bundle_roles": {"orders": "arn:aws:iam::111111111111:role/orders-jobs"},
    "watcher_roles": {"shop": f"arn:aws:iam::{ACCOUNT}:role/shop-watchers"},
}
# Every flag that brings something into the stack.
EVERYTHING = {
    "stage": "prod",
    "alarm_email": "people@example.com",
    "event_senders": [
        "arn:aws:iam::222222222222:role/producer",
        f"arn:aws:sns:{REGION}:{ACCOUNT}:prices",
    ],
    "watch_buckets": ["landing"],
    "watch_event_sources": ["shop"],
    "watch_queues": ["raw", "raw.fifo"],
    "data_buckets": ["lake"],
    "secrets": ["secretsmanager:warehouse", "ssm:/lake/key", "ssm:token"],
    "state_machines": ["export", "Crawl_2"],
    "spark_warm_executors": 2,
    "spark_cloudwatch_logs": True,
    "vpc_id": "vpc-12345678",
    "sandbox_subnets": ["subnet-12345678"],
    "s3_prefix_list": "pl-12345678",
    "spark_subnets": ["subnet-22345678"],
    "watch_subnets": ["subnet-32345678"],
    "watch_security_groups": ["sg-12345678"],
    "task_policies": [f"arn:aws:iam::{ACCOUNT}:policy/catalog"],
    "task_concurrency": 20,
    "task_subnets": ["subnet-42345678"],
    "task_security_groups": ["sg-22345678"],
    "watch_access_point": (
        f"arn:aws:elasticfilesystem:{REGION}:{ACCOUNT}:access-point/fsap-0123456789abcdef0"
    ),
    "watch_mount_path": "/mnt/inbox",
    **SETTINGS,
}
# And with the longest name that a stack may have, and as long lists as there is room for.
LONGEST = {**EVERYTHING, "name": "l" * 32, "watch_event_sources": ["b" * 1_000]}


@dataclass(frozen=True)
class Synthesis:
    """What came of a stack."""

    config: Config
    template: dict[str, Any]
    path: Path
    findings: list[tuple[str, str]]

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the properties of all resources of a type, by logical id."""
        found = self.template["Resources"].items()
        return {name: each["Properties"] for name, each in found if each["Type"] == kind}

    def variables(self, function: str) -> dict[str, str]:
        """Return the environment of a function, as short texts."""
        for properties in self.resources("AWS::Lambda::Function").values():
            if properties.get("FunctionName") == f"{self.config.stack_name}-{function}":
                found: dict[str, Any] = properties["Environment"]["Variables"]
                return {name: short(value) for name, value in found.items()}
        raise AssertionError(f"there is no function {function}")

    @property
    def outputs(self) -> dict[str, str]:
        """What the outputs say, as short texts."""
        return {name: short(each["Value"]) for name, each in self.template["Outputs"].items()}


def synthesize(flags: Mapping[str, Any], *, has_layers: bool = False) -> Synthesis:
    """Return a stack with these flags, looked through by cdk-nag."""
    text = json.dumps(dict(flags), sort_keys=True)
    # Layers may be others the next time.
    return _synthesize(text, has_layers=True) if has_layers else _synthesize_once(text)


@cache
def _synthesize_once(flags: str) -> Synthesis:
    return _synthesize(flags, has_layers=False)


def _synthesize(flags: str, *, has_layers: bool) -> Synthesis:
    config = Config.from_context(json.loads(flags))
    folder = Path(mkdtemp(prefix="lamplighter-synth-"))
    atexit.register(shutil.rmtree, folder)
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = cdk.App(context=context, outdir=str(folder))
    env = cdk.Environment(account=config.account or ACCOUNT, region=config.region or REGION)
    LamplighterStack(app, config=config, env=env, has_layers=has_layers)
    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    try:
        app.synth()
    except RuntimeError:
        # So it ends when there are findings, which the report has.
        if not (folder / REPORT).is_file():
            raise
    path = folder / f"{config.stack_name}.template.json"
    return Synthesis(config, json.loads(path.read_text()), path, list(findings_in(folder)))


def findings_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what cdk-nag has found, and where."""
    report = json.loads((folder / REPORT).read_text())
    for plugin in report["pluginReports"]:
        for violation in plugin.get("violations", ()):
            for construct in violation["violatingConstructs"]:
                yield violation["ruleName"], construct["constructPath"]


def short(value: Any) -> str:
    """Return a value of a template as a text; what only AWS knows stands in angle brackets."""
    match value:
        case str():
            return value
        case {"Ref": "AWS::Partition"}:
            return "aws"
        case {"Ref": "AWS::AccountId"}:
            return ACCOUNT
        case {"Ref": "AWS::Region"}:
            return REGION
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), *_]}:
            return f"<{name}>"
        case {"Fn::Select": [_, {"Fn::Split": [_, whole]}]}:
            return short(whole)
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(short(part) for part in parts)
        case {"Fn::Sub": str(text)}:
            known = {"Partition": "aws", "AccountId": ACCOUNT, "Region": REGION}
            return re.sub(r"\$\{AWS::(\w+)\}", lambda found: known[found[1]], text)
    raise ValueError(f"a template has never said {value!r} before")


def shortened(value: Any) -> Any:
    """Return a part of a template with texts for all that refers to something else."""
    match value:
        case {"Ref": _} | {"Fn::GetAtt": _} | {"Fn::Join": _} | {"Fn::Sub": _}:
            return short(value)
        case dict():
            return {name: shortened(each) for name, each in value.items()}
        case list():
            return [shortened(each) for each in value]
    return value
