"""`lamplighter template`: a stack as files that need neither the CDK nor its bucket."""

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import Command
from tests.integration.cli.pretended_cdk import (
    BUCKET,
    TEMPLATE,
    enter_folder_with_node,
    write_app,
)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with an app, where the commands are typed; there is a Node, and no npm."""
    home = enter_folder_with_node(tmp_path, monkeypatch)
    write_app(home)
    return home


def _written(out: str) -> dict[str, bytes]:
    root = Path(out)
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def test_bucket_of_the_cdk_is_a_parameter(alone: Command) -> None:
    """And nothing of what only `cdk bootstrap` makes is left."""
    assert alone("template", "--out", "out").code == 0

    template = json.loads(_written("out")["template.json"])
    assert template["Parameters"].keys() == {"AssetsBucket"}
    assert "Rules" not in template
    assert BUCKET not in json.dumps(template)
    code = template["Resources"]["Function"]["Properties"]["Code"]
    assert code == {"S3Bucket": {"Ref": "AssetsBucket"}, "S3Key": "abc.zip"}
    copied = template["Resources"]["Copy"]["Properties"]["From"]
    assert copied == {"Fn::Sub": "arn:${AWS::Partition}:s3:::${AssetsBucket}"}


def test_bucket_of_a_known_account_is_a_parameter_too(alone: Command, project: Path) -> None:
    """Where the app names account and region, the CDK writes plain texts."""
    name = "cdk-hnb659fds-assets-111111111111-eu-central-1"
    write_app(project)
    file = project / "assembly.json"
    text = file.read_text().replace(BUCKET, name)
    file.write_text(text.replace(r"{\"Fn::Sub\": \"" + name + r"\"}", rf"\"{name}\""))
    alone("template", "--out", "out")

    template = json.loads(_written("out")["template.json"])
    code = template["Resources"]["Function"]["Properties"]["Code"]
    assert code["S3Bucket"] == {"Ref": "AssetsBucket"}


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("111111111111/eu-central-1", "cdk-hnb659fds-assets-111111111111-eu-central-1"),
        ("unknown-account/eu-central-1", "cdk-hnb659fds-assets-${AWS::AccountId}-eu-central-1"),
    ],
)
def test_bucket_that_permissions_name_is_the_parameter_too(
    alone: Command, project: Path, place: str, name: str
) -> None:
    """They leave account and region to AWS, also where the assets do not."""
    files = json.loads((project / "assembly.json").read_text())
    files["STACK.assets.json"] = files["STACK.assets.json"].replace(BUCKET, name)
    files["manifest.json"] = files["manifest.json"].replace("unknown-account/unknown-region", place)
    (project / "assembly.json").write_text(json.dumps(files))
    alone("template", "--out", "out")

    template = json.loads(_written("out")["template.json"])
    copied = template["Resources"]["Copy"]["Properties"]["From"]
    assert copied == {"Fn::Sub": "arn:${AWS::Partition}:s3:::${AssetsBucket}"}


def _with_copied_from(substituted: list[Any]) -> dict[str, Any]:
    copy = {"Type": "Custom::Copy", "Properties": {"From": {"Fn::Sub": substituted}}}
    resources: Any = TEMPLATE["Resources"]
    return {**TEMPLATE, "Resources": {**resources, "Copy": copy}}


def test_bucket_beside_variables_is_the_parameter_too(alone: Command, project: Path) -> None:
    """`Fn::Sub` has a form with variables, which may name the bucket as well."""
    text, bucket = f"arn:${{Part}}:s3:::{BUCKET}/${{Key}}", {"Fn::Sub": BUCKET}
    write_app(project, _with_copied_from([text, {"Part": "aws", "Key": bucket}]))
    alone("template", "--out", "out")

    template = json.loads(_written("out")["template.json"])
    variables = {"Part": "aws", "Key": {"Ref": "AssetsBucket"}}
    assert template["Resources"]["Copy"]["Properties"]["From"] == {
        "Fn::Sub": ["arn:${Part}:s3:::${AssetsBucket}/${Key}", variables]
    }


def test_variable_of_the_parameters_name_is_refused(alone: Command, project: Path) -> None:
    """It would hide the parameter."""
    write_app(project, _with_copied_from([BUCKET, {"AssetsBucket": "mine"}]))
    done = alone("template", "--out", "out")

    assert done.err == "error: the template has a variable 'AssetsBucket' of its own\n"


def test_app_that_has_to_look_something_up_is_refused(alone: Command, project: Path) -> None:
    """Else the template would have the ids of a network that does not exist."""
    files = json.loads((project / "assembly.json").read_text())
    manifest = json.loads(files["manifest.json"])
    manifest["missing"] = [{"key": "vpc-provider:account=1", "provider": "vpc-provider"}]
    files["manifest.json"] = json.dumps(manifest)
    (project / "assembly.json").write_text(json.dumps(files))
    done = alone("template", "--out", "out")

    assert done.err.startswith("error: the app looks up vpc-provider:account=1 in an account: run")
    assert not Path("out").exists()


def test_list_names_each_file_with_its_key(alone: Command) -> None:
    """The template is among them: it is too long to be sent."""
    alone("template", "--out", "out")

    written = _written("out")
    listed = json.loads(written["assets.json"])
    keys = {each["file"]: each["key"] for each in listed["files"]}
    assert keys == {
        "assets/abc.zip": "abc.zip",
        "assets/def.zip": "def.zip",
        "template.json": listed["template"],
    }
    assert written.keys() == {*keys, "assets.json", "main.tf", "README.md"}
    assert written["assets/def.zip"] == b"zipped"
    with zipfile.ZipFile("out/assets/abc.zip") as archive:
        assert archive.read("handler.py") == b"handler = print\n"


def test_same_app_makes_the_same_files(alone: Command) -> None:
    """Also over those of a former time."""
    alone("template", "--out", "out")
    first = _written("out")
    alone("template", "--out", "out")
    alone("template", "--out", "other")

    assert _written("out") == first == _written("other")


def test_stage_is_that_of_the_app(alone: Command) -> None:
    """The files name the stack that they make."""
    done = alone("template", "--out", "out", "--stage", "qa")

    assert done.out.startswith("stack lamplighter-qa: 6 files in out")
    assert 'name         = "lamplighter-qa"' in _written("out")["main.tf"].decode()
    readme = _written("out")["README.md"].decode()
    assert len(readme.splitlines()) == 6
    assert "--enable-termination-protection --stack-name lamplighter-qa`" in readme


def test_snippet_refers_to_what_it_declares(alone: Command) -> None:
    """Every reference of Terraform leads to a block of the file, and braces are closed."""
    alone("template", "--out", "out")

    text = _written("out")["main.tf"].decode()
    declared = {f"{kind}.{name}" for kind, name in re.findall(r'resource "(\w+)" "(\w+)"', text)}
    assert {*re.findall(r"\baws_\w+\.\w+", text)} <= declared
    assert {*re.findall(r"local\.(\w+)", text)} == {"lamplighter"}
    listed = json.loads(_written("out")["assets.json"])
    assert {*re.findall(r"local\.lamplighter\.(\w+)", text)} <= listed.keys()
    assert {*re.findall(r"asset\.(\w+)", text)} == listed["files"][0].keys()
    assert text.count("{") == text.count("}")
    assert "AssetsBucket = aws_s3_bucket" in text


def test_bucket_of_the_snippet_is_closed(alone: Command) -> None:
    """To the public, and to plain HTTP."""
    alone("template", "--out", "out")

    text = _written("out")["main.tf"].decode()
    assert 'resource "aws_s3_bucket_public_access_block" "lamplighter_assets"' in text
    policy = text.partition('resource "aws_s3_bucket_policy" "lamplighter_assets"')[2]
    assert '"aws:SecureTransport" = "false"' in policy.partition("\n}")[0]


def test_snippet_is_as_terraform_formats_it(alone: Command) -> None:
    """Its own parser reads it, where it is installed."""
    terraform = shutil.which("terraform", path="/usr/local/bin:/usr/bin:/opt/homebrew/bin")
    if terraform is None:
        pytest.skip("terraform is not installed")
    alone("template", "--out", "out")
    command = (terraform, "fmt", "-check", "-diff", "-no-color", "out/main.tf")
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_without_node_is_refused(alone: Command, tmp_path: Path) -> None:
    """It is all that is needed beside Python."""
    (tmp_path / "bin" / "node").unlink()
    done = alone("template", "--out", "out")

    assert done.err == "error: node was not found: the CDK needs Node.js 22 or newer\n"
    assert not Path("out").exists()


def test_folder_of_someone_else_is_refused(alone: Command, project: Path) -> None:
    """Nothing is written among other files."""
    done = alone("template", "--out", ".")

    assert done.err == "error: --out . is not empty: name a new folder\n"


@pytest.mark.parametrize("text", ['{"main.js": "main.1.js"}', "[]", "assets"])
def test_assets_of_someone_else_stay(alone: Command, text: str) -> None:
    """Other tools write a list of that name, beside a folder of that name."""
    Path("site/assets").mkdir(parents=True)
    Path("site/assets/logo.svg").write_text("drawn")
    Path("site/assets.json").write_text(text)
    done = alone("template", "--out", "site")

    assert done.err == "error: --out site is not empty: name a new folder\n"
    assert Path("site/assets/logo.svg").exists()


def test_app_without_a_deployment_is_refused(alone: Command, project: Path) -> None:
    """It is told what the app has."""
    write_app(project, {**TEMPLATE, "Outputs": {}})
    done = alone("template", "--out", "out")

    assert done.err == (
        "error: the app must have one stack with a deployment of Lamplighter; it has none:"
        " use the command line of the CDK\n"
    )


def test_app_that_fails_ends_the_command(alone: Command, project: Path) -> None:
    """What it says has been read by then; its exit code passes through."""
    (project / "app.py").write_text("raise SystemExit(7)")

    assert alone("template", "--out", "out").code == 7
    assert not Path("out").exists()
