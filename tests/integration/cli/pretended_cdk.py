"""A CDK of a few lines, for tests of what is asked of it: its command line, and an app."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

_COMMAND = """\
#!{python}
import json, os, pathlib, sys
if sys.argv[1:] == ["--version"]:
    print("{version} (build 0)")
    sys.exit()
noted = {{"arguments": sys.argv[1:], "variables": dict(os.environ)}}
pathlib.Path({calls!r}).open("a").write(json.dumps(noted) + "\\n")
if "--outputs-file" in sys.argv:
    file = sys.argv[sys.argv.index("--outputs-file") + 1]
    pathlib.Path(file).write_text('{{"lamplighter-dev": {{"TablePrefix": "x"}}}}')
print("said by the CDK")
sys.exit(int(os.environ.get("CDK_EXITS", "0")))
"""
_APP = """\
import json, os, pathlib
context = json.loads(os.environ["CDK_CONTEXT_JSON"])
out = pathlib.Path(os.environ["CDK_OUTDIR"])
name = "lamplighter-" + context["stage"]
for file, text in json.loads(pathlib.Path("assembly.json").read_text()).items():
    path = out / file.replace("STACK", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("STACK", name))
"""
BUCKET = "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"
TEMPLATE = {
    "Parameters": {"BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>"}},
    "Rules": {"CheckBootstrapVersion": {"Assertions": []}},
    "Resources": {
        "Function": {
            "Type": "AWS::Lambda::Function",
            "Properties": {"Code": {"S3Bucket": {"Fn::Sub": BUCKET}, "S3Key": "abc.zip"}},
        },
        "Copy": {
            "Type": "Custom::Copy",
            "Properties": {"From": {"Fn::Sub": f"arn:${{AWS::Partition}}:s3:::{BUCKET}"}},
        },
    },
    "Outputs": {"TablePrefix": {"Value": "STACK-"}},
}


def enter_folder_with_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to an empty folder, where there is a Node and nothing else; return it."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "node").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(bin_folder))
    monkeypatch.delenv("JSII_NODE", raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return home


def write_command(folder: Path, name: str = "cdk", *, version: str = "2.1147.0") -> Path:
    """Write a command line of the CDK; return the file that it notes its calls in."""
    calls = folder / f"{name}-calls.jsonl"
    command = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    text = _COMMAND.format(python=sys.executable, version=version, calls=str(calls))
    command.write_text(text)
    command.chmod(0o755)
    return calls


def calls_of(file: Path) -> list[dict[str, Any]]:
    """Return the calls that were noted."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def write_app(folder: Path, template: Mapping[str, Any] = TEMPLATE) -> None:
    """Write a project with an app of its own, which has one stack and two assets."""
    asset = {"bucketName": BUCKET, "objectKey": "abc.zip"}
    files = {
        "abc": {
            "source": {"path": "asset.abc", "packaging": "zip"},
            "destinations": {"here": asset},
        },
        "def": {
            "source": {"path": "asset.def.zip", "packaging": "file"},
            "destinations": {"here": {**asset, "objectKey": "def.zip"}},
        },
        "template": {
            "source": {"path": "STACK.template.json", "packaging": "file"},
            "destinations": {"here": {**asset, "objectKey": "template.json"}},
        },
    }
    stack = {
        "type": "aws:cloudformation:stack",
        "environment": "aws://unknown-account/unknown-region",
        "properties": {"templateFile": "STACK.template.json"},
        "dependencies": ["STACK.assets"],
    }
    assets = {"type": "cdk:asset-manifest", "properties": {"file": "STACK.assets.json"}}
    assembly = {
        "manifest.json": {"artifacts": {"STACK.assets": assets, "STACK": stack}},
        "STACK.assets.json": {"files": files},
        "STACK.template.json": template,
    }
    texts = {name: json.dumps(content) for name, content in assembly.items()}
    texts |= {"asset.abc/handler.py": "handler = print\n", "asset.def.zip": "zipped"}
    (folder / "assembly.json").write_text(json.dumps(texts))
    (folder / "app.py").write_text(_APP)
    context = {"@aws-cdk/core:x": True}
    (folder / "cdk.json").write_text(json.dumps({"app": "python app.py", "context": context}))
