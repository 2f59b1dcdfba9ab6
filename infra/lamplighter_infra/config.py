"""What a stage of a deployment is made with: sizes, limits, and what it shares with others.

Owns: the flags of `cdk deploy -c name=value`, their defaults by stage, and which go together.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Self

from lamplighter.checked_fields import OneOf, Range, read_value, require_known
from lamplighter.errors import SettingsError
from lamplighter.executors.emr_workers import Sizes
from lamplighter.settings import ChosenSettings
from lamplighter.topology import FUNCTIONS

_STAGE = re.compile(r"[a-z][a-z0-9-]{0,19}")
# With an account and a region behind it, it names a bucket, of 63 letters at most.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_LOCAL_ACCOUNT = "000000000000"
_LOCAL_REGION = "us-east-1"
# What CloudWatch Logs takes, as far as anyone keeps logs of functions.
_LogDays = Annotated[int, OneOf([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731])]
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+")
_STATE_MACHINE = re.compile(r"[\w-]{1,80}", re.ASCII)
# As variables refer to them, without the key of a JSON object.
_SECRET = re.compile(r"secretsmanager:[\w/+=.@-]{1,512}|ssm:[\w/.-]{1,1011}", re.ASCII)
# Where Lambda mounts file systems.
_MOUNT_PATH = re.compile(r"/mnt/[a-zA-Z0-9_.-]{1,155}")
_ACCESS_POINT = re.compile(
    r"arn:aws[a-z-]*:elasticfilesystem:[a-z0-9-]+:\d{12}:access-point/fsap-[0-9a-f]+"
)


# Before a flag in the context of an app that has a context of its own.
FLAG_PREFIX = "lamplighter:"

# What the CDK writes for a name that only AWS will know.
_TOKEN = "${Token["  # noqa: S105 - no secret


def is_token(text: str) -> bool:
    """Return whether a text stands for one that is known when AWS has made something."""
    return _TOKEN in text


def _fits(pattern: re.Pattern[str], text: str) -> bool:
    return is_token(text) or pattern.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True)
class Config:
    """One stage. Every field is a flag: `-c alarm_email=someone@example.com`.

    Lists are JSON (`-c watch_buckets='["landing"]'`) or one name.
    """

    # "dev" and "prod" have defaults of their own; all other names have the same ones.
    stage: str
    # What the names of all resources begin with; empty is `lamplighter-` and the stage.
    name: str = ""
    account: str = ""  # Where to deploy; empty is the account of the credentials.
    region: str = ""  # Where to deploy; empty is the Region of the credentials.
    # "aws", or "local": an emulator that executes the functions with its own interpreter.
    target: Annotated[str, OneOf(["aws", "local"])] = "aws"
    # Only of a local target: where the fake EMR Serverless answers.
    emr_endpoint: str = ""

    # Whether tables, the bucket and the key stay when the stack is deleted.
    keep_data: bool = True
    log_days: _LogDays = 30
    alarm_email: str = ""
    # An SNS topic that exists, by ARN, as the target of alarms instead of one of the stack's own.
    notify: str = ""
    # A customer-managed key that exists, by ARN, instead of one of the stack's own.
    kms_key_arn: str = ""

    # Each setting of the deployment that can be chosen is a flag of its own name.
    settings: ChosenSettings = field(default_factory=ChosenSettings)
    # How many batches of one queue are worked on at once: as an event source mapping allows.
    concurrency: Annotated[int, Range(2, 1_000)] = 10
    # Functions that start from a snapshot. Lambda takes about two dollars a month for each.
    snap_start: tuple[str, ...] = ()

    # Who may send events of assets: ARNs of roles and accounts, of topics, buckets and rules.
    event_senders: tuple[str, ...] = ()
    watch_queues: tuple[str, ...] = ()  # Names of external queues that watchers listen to.
    # Names of buckets that watchers listen to; they must send their events to EventBridge.
    watch_buckets: tuple[str, ...] = ()
    watch_event_sources: tuple[str, ...] = ()  # `source`s of events that watchers listen to.
    # The ARN of an access point of EFS that `watch` may use; needs `watch_subnets`.
    watch_access_point: str = ""
    watch_mount_path: str = ""  # Where `watch` sees it: a folder below /mnt, such as /mnt/inbox.

    # Jobs. With `emr_application_id` the stack makes no application of its own.
    emr_application_id: str = ""
    emr_release: str = "emr-spark-8.0.0"
    spark_concurrent_runs: Annotated[int, Range(1, 1_000)] = 50  # Jobs at once.
    spark_queue_minutes: Annotated[int, Range(15, 720)] = 360  # How long other jobs are queued.
    spark_idle_minutes: Annotated[int, Range(1, 10_080)] = 15  # When the application stops.
    # Executors that are kept warm, beside a driver; they are paid for while the application runs.
    spark_warm_executors: Annotated[int, Range(0, 1_000)] = 0
    # Whether drivers also write their logs to CloudWatch, while they run; CloudWatch bills them.
    spark_cloudwatch_logs: bool = False
    data_buckets: tuple[str, ...] = ()  # Names of buckets that jobs read and write.
    data_keys: tuple[str, ...] = ()  # ARNs of the keys that these are encrypted with.
    # Further policies of jobs, by ARN.
    job_policies: tuple[str, ...] = ()
    # What jobs may read of Secrets Manager and SSM: `secretsmanager:NAME`, `ssm:PARAMETER`.
    secrets: tuple[str, ...] = ()

    # Python tasks: the size of their function, how many run at once (0: as many as the account
    # allows), and policies of what they run, by ARN.
    task_memory_mb: Annotated[int, Range(512, 10_240)] = 1_024
    task_concurrency: Annotated[int, Range(0, 10_000)] = 0
    task_policies: tuple[str, ...] = ()

    # The state machines that tasks may start, by name; they are in this account and Region.
    state_machines: tuple[str, ...] = ()

    # An existing network. Security groups that exist say what can be reached.
    vpc_id: str = ""
    sandbox_subnets: tuple[str, ...] = ()  # Subnets in which DAG files are imported.
    # The prefix list of the gateway endpoint for S3, which is all that the sandbox can reach there.
    s3_prefix_list: str = ""
    watch_subnets: tuple[str, ...] = ()  # Subnets for `watch`.
    watch_security_groups: tuple[str, ...] = ()  # Existing security groups for `watch`.
    task_subnets: tuple[str, ...] = ()  # Subnets for `task`.
    task_security_groups: tuple[str, ...] = ()  # Existing security groups for `task`.
    spark_subnets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what AWS would refuse later, and flags that contradict each other."""
        if not _STAGE.fullmatch(self.stage):
            raise SettingsError(
                f"stage {self.stage!r}: use up to 20 small letters, digits and hyphens"
            )
        if self.name and not _NAME.fullmatch(self.name):
            raise SettingsError(
                f"name {self.name!r}: use up to 32 small letters, digits and hyphens"
            )
        if self.stage == "prod" and not self.keep_data:
            raise SettingsError("keep_data=false: the data of prod are never deleted with a stack")
        for name in self.snap_start:
            # A snapshot belongs to a version, and the sandbox is asked by its name alone.
            if name not in FUNCTIONS or name == "sandbox":
                names = ", ".join(sorted(set(FUNCTIONS) - {"sandbox"}))
                raise SettingsError(f"snap_start: {name!r} is not one of {names}")
        for problem in Sizes.of({}, self.settings).problems():
            raise SettingsError(f"default sizes of jobs (spark_…_cores, …_memory_gb): {problem}")
        if self.alarm_email and self.notify:
            raise SettingsError(
                "alarm_email and notify exclude each other: subscribe the address to that topic"
            )
        self._require_roles_and_secrets()
        self._require_names_of_state_machines()
        self._require_whole_network()
        self._require_sources_of_watchers()

    def _require_roles_and_secrets(self) -> None:
        for secret in self.secrets:
            if not _fits(_SECRET, secret):
                raise SettingsError(
                    f"secrets: {secret!r} must be secretsmanager:NAME or ssm:PARAMETER, without"
                    " wildcards"
                )
        for bundle, arn in self.settings.bundle_roles.items():
            if not _fits(_ROLE, arn):
                raise SettingsError(
                    f"bundle_roles: {arn!r} for bundle {bundle!r} must be the ARN of a role, such"
                    " as arn:aws:iam::111111111111:role/orders-jobs"
                )

    def _require_names_of_state_machines(self) -> None:
        for name in self.state_machines:
            if not _fits(_STATE_MACHINE, name):
                raise SettingsError(
                    f"state_machines: {name!r} must be the name of a state machine of this account"
                    " and Region; one elsewhere can be started by one that is here"
                )

    def _require_whole_network(self) -> None:
        subnets = ("sandbox_subnets", "watch_subnets", "task_subnets", "spark_subnets")
        given = [name for name in subnets if getattr(self, name)]
        if given and not self.vpc_id:
            raise SettingsError(f"{given[0]} are subnets of vpc_id: give that too")
        if self.vpc_id and not given:
            raise SettingsError(f"vpc_id alone does nothing: give one of {', '.join(subnets)}")
        if bool(self.sandbox_subnets) != bool(self.s3_prefix_list):
            raise SettingsError(
                "sandbox_subnets and s3_prefix_list (of the gateway endpoint for S3) go together"
            )
        for kind in ("watch", "task"):
            pair = f"{kind}_subnets", f"{kind}_security_groups"
            if bool(getattr(self, pair[0])) != bool(getattr(self, pair[1])):
                raise SettingsError(f"{pair[0]} and {pair[1]} go together")

    def _require_sources_of_watchers(self) -> None:
        if bool(self.watch_access_point) != bool(self.watch_mount_path):
            raise SettingsError("watch_access_point and watch_mount_path go together")
        if not self.watch_access_point:
            return
        if not self.watch_subnets:
            raise SettingsError("watch_access_point is reached from subnets: give watch_subnets")
        if not _fits(_ACCESS_POINT, self.watch_access_point):
            raise SettingsError(
                f"watch_access_point {self.watch_access_point!r} must be the ARN of an access"
                " point of EFS, such as"
                " arn:aws:elasticfilesystem:eu-central-1:111111111111:access-point/fsap-0123456789"
            )
        if not _MOUNT_PATH.fullmatch(self.watch_mount_path):
            raise SettingsError(
                f"watch_mount_path {self.watch_mount_path!r} must be a folder below /mnt, such as"
                " /mnt/inbox"
            )

    @property
    def stack_name(self) -> str:
        """What the names of its resources begin with; in an app of its own, the stack's name."""
        return self.name or f"lamplighter-{self.stage}"

    @property
    def bundle_role_arns(self) -> list[str]:
        """The roles that jobs of some bundles have instead of the one of the stack."""
        return sorted({*self.settings.bundle_roles.values()})

    @property
    def job_log_group(self) -> str:
        """The log group on CloudWatch of the drivers; empty if they write to S3 alone."""
        return f"/aws/emr-serverless/{self.stack_name}" if self.spark_cloudwatch_logs else ""

    @property
    def is_local(self) -> bool:
        """Whether an emulator is deployed to."""
        return self.target == "local"

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Self:
        """Return the stage that the flags of a command describe."""
        # The keys of the CDK itself have colons, slashes and at signs in them.
        given = {key: value for key, value in context.items() if re.fullmatch(r"[a-z0-9_-]+", key)}
        return cls.of_stage(*read_flags(given))

    @classmethod
    def of_stage(cls, given: Mapping[str, Any], chosen: Mapping[str, Any]) -> Self:
        """Return a stage with these fields and settings; its others have the stage's defaults."""
        types = {each.name: each.type for each in fields(cls)}
        values = {name: read_value(types[name], name, value) for name, value in given.items()}
        stage = values.get("stage", "dev")
        # Of an application that exists already, only its owner knows the limits.
        limits = {} if values.get("emr_application_id") else _LIMITS.get(stage, _OTHER_LIMITS)
        defaults = {"stage": stage, **_DEFAULTS.get(stage, {})}
        made = cls(**{**defaults, **values}, settings=ChosenSettings.named({**limits, **chosen}))
        if made.is_local:
            made = replace(made, account=_LOCAL_ACCOUNT, region=_LOCAL_REGION)
        return made


def read_flags(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return flags as fields of `Config` and settings; refuse names that do not exist."""
    own = [each.name for each in fields(Config) if each.name != "settings"]
    chosen = [each.name for each in fields(ChosenSettings)]
    for key in given:
        require_known("flag", key, (*own, *chosen))
    values = {key: value for key, value in given.items() if key in own}
    return values, {key: value for key, value in given.items() if key in chosen}


# A stage of another name has the defaults of the fields.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "dev": {
        "keep_data": False,
        "log_days": 7,
        "concurrency": 5,
        "spark_concurrent_runs": 10,
    },
    "prod": {"log_days": 90, "snap_start": ("claim", "submit")},
}
# What all jobs of a stage may use together: in dev, what a new account has.
_LIMITS: Mapping[str, Mapping[str, int]] = {
    "dev": {"spark_vcpus": 16, "spark_memory_gb": 64, "spark_disk_gb": 400},
}
_OTHER_LIMITS = {"spark_vcpus": 64, "spark_memory_gb": 256, "spark_disk_gb": 2000}
