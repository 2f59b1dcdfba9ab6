"""The roles of jobs: what every job needs, and who may give it to them."""

from typing import Any

from tests.infra.synthesis import EVERYTHING, Synthesis, shortened
from tests.infra.test_permissions import policies_of

(ROLE,) = EVERYTHING["bundle_roles"].values()


def _statements(policy: Any) -> list[Any]:
    return [shortened(each) for each in policy["PolicyDocument"]["Statement"]]


def test_roles_of_bundles_get_what_every_job_needs_and_no_data(prod: Synthesis) -> None:
    """The stack adds to them the statements of its own role, except those on data and secrets."""
    (added,) = (
        each
        for name, each in prod.resources("AWS::IAM::Policy").items()
        if name.startswith("SparkBundleRoles")
    )
    assert added["Roles"] == [ROLE.rpartition("/")[2]]
    (own,) = (
        policy
        for name, each in prod.resources("AWS::IAM::Role").items()
        if name.startswith("SparkJobRole")
        for policy in each["Policies"]
    )
    data = [each for each in _statements(own) if each not in _statements(added)]
    assert [each for each in _statements(added) if each not in _statements(own)] == []
    assert "s3:DeleteObject" in data[0]["Action"]
    assert [each["Action"] for each in data[1:]] == [
        "secretsmanager:GetSecretValue",
        "ssm:GetParameter",
    ]


def test_submit_passes_the_roles_of_jobs_and_no_others(prod: Synthesis, dev: Synthesis) -> None:
    """A bundle gets its role because the deployer has named it, for both."""
    for synthesis, roles in ((prod, {"role/jobs", "role/orders-jobs"}), (dev, {"role/jobs"})):
        passing = {
            who: {line.thing for line in lines if line.action == "iam:PassRole"}
            for who, lines in policies_of(synthesis).items()
        }
        assert {who: things for who, things in passing.items() if things} == {"submit": roles}
