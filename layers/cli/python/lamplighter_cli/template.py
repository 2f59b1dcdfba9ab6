"""`lamplighter template`: a deployment as files, for those who use CloudFormation or Terraform.

Owns: what is in the folder. The template that the CDK synthesizes names a bucket that only `cdk
bootstrap` makes; here the bucket is a parameter.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import typer
from rich.text import Text

from lamplighter.errors import RefusedError
from lamplighter_cli import console
from lamplighter_cli.assembly import Stack, our_stack, require_no_lookups
from lamplighter_cli.cdk import Flags, Stage, app_here, synthesize

_FILES = Path(__file__).parent / "templates" / "terraform"
_PARAMETER = "AssetsBucket"
_LIST = "assets.json"
# What the list says of the bucket.
_BUCKET = {"parameter": _PARAMETER}
# What the CDK adds to be sure of its own bucket.
_OF_BOOTSTRAP = (("Parameters", "BootstrapVersion"), ("Rules", "CheckBootstrapVersion"))
# The first instant a zip can hold: the real ones would make two zips of the same files differ.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def template(
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new or empty folder.")],
    stage: Stage = "dev",
    flags: Flags = None,
) -> None:
    """Write a stage as a CloudFormation template with its assets, and a snippet for Terraform."""
    app = app_here(stage, flags)
    _require_room(out)
    with TemporaryDirectory(prefix="lamplighter-cdk-") as folder:
        synthesize(app, Path(folder))
        require_no_lookups(Path(folder))
        stack = our_stack(Path(folder))
        written = _write(stack, out)
    text = f"stack {stack.name}: {written} files in {out}; begin with {out / 'README.md'}"
    console.out().print(Text(text), soft_wrap=True)


def _require_room(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()) and not _is_ours(out / _LIST):
        raise RefusedError(f"--out {out} is not empty: name a new folder")
    if out.exists() and not out.is_dir():
        raise RefusedError(f"--out {out} is a file: name a new folder")


def _is_ours(listed: Path) -> bool:
    """Return whether a list is one of assets that was written here: others have that name too."""
    try:
        return bool(json.loads(listed.read_bytes())["bucket"] == _BUCKET)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _write(stack: Stack, out: Path) -> int:
    """Write all files; those of a former time go."""
    shutil.rmtree(out / "assets", ignore_errors=True)
    (out / "assets").mkdir(parents=True)
    files = dict(_write_assets(stack, out))
    text = json.dumps(with_bucket_parameter(stack), indent=1).encode()
    key = f"{hashlib.sha256(text).hexdigest()}.template.json"
    (out / "template.json").write_bytes(text)
    listed = [{"file": name, "key": each} for name, each in {**files, "template.json": key}.items()]
    described = {"bucket": _BUCKET, "template": key, "files": listed}
    (out / _LIST).write_text(json.dumps(described, indent=2) + "\n")
    values = {"stack": stack.name, "parameter": _PARAMETER}
    for path in _FILES.iterdir():
        # Other dollar signs are Terraform's.
        (out / path.name).write_text(Template(path.read_text()).safe_substitute(values))
    return sum(path.is_file() for path in out.rglob("*"))


def _write_assets(stack: Stack, out: Path) -> Iterator[tuple[str, str]]:
    """Write the assets; yield the name and key of each."""
    for asset in stack.assets:
        key = _destination(asset)["objectKey"]
        name = f"assets/{Path(key).name}"
        source = stack.folder / asset["source"]["path"]
        if asset["source"]["packaging"] == "zip":
            _zip(source, out / name)
        else:
            shutil.copyfile(source, out / name)
        yield name, key


def _destination(asset: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = next(iter(asset["destinations"].values()))
    return found


def _zip(folder: Path, into: Path) -> None:
    with ZipFile(into, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = ZipInfo(path.relative_to(folder).as_posix(), _NO_TIME)
            # Lambda must be able to read it, and to run what can be run.
            entry.external_attr = (0o100755 if path.stat().st_mode & 0o100 else 0o100644) << 16
            archive.writestr(entry, path.read_bytes(), ZIP_DEFLATED)


# The bucket.


def with_bucket_parameter(stack: Stack) -> dict[str, Any]:
    """Return the template with a parameter instead of the bucket of `cdk bootstrap`."""
    known = {_destination(asset)["bucketName"] for asset in stack.assets}
    names = {*known, *(_of_any_place(name, stack) for name in known)}
    changed: dict[str, Any] = _replaced(stack.template, names)
    for section, name in _OF_BOOTSTRAP:
        changed.get(section, {}).pop(name, None)
        if not changed.get(section, True):
            del changed[section]
    if any(name in json.dumps(changed) for name in names):
        raise RefusedError("the template names the bucket of `cdk bootstrap` in an unknown way")
    described = "The bucket that holds the files which assets.json lists."
    parameters = {_PARAMETER: {"Type": "String", "Description": described}}
    return {**changed, "Parameters": {**parameters, **changed.get("Parameters", {})}}


def _of_any_place(name: str, stack: Stack) -> str:
    """Return the name of a bucket as permissions have it, which leave the place to AWS."""
    for known, text in ((stack.account, "AWS::AccountId"), (stack.region, "AWS::Region")):
        name = name.replace(known, f"${{{text}}}") if known else name
    return name


def _replaced(value: Any, names: set[str]) -> Any:
    match value:
        case {"Fn::Sub": str(text)}:
            return _substituted(text, names)
        case {"Fn::Sub": [str(text), dict(variables)]} if any(name in text for name in names):
            if _PARAMETER in variables:
                raise RefusedError(f"the template has a variable {_PARAMETER!r} of its own")
            return {"Fn::Sub": [_with_parameter(text, names), _replaced(variables, names)]}
        case dict():
            return {key: _replaced(each, names) for key, each in value.items()}
        case list():
            return [_replaced(each, names) for each in value]
        case str() if any(name in value for name in names):
            return _substituted(value, names)
    return value


def _substituted(text: str, names: set[str]) -> dict[str, str]:
    if text in names:
        return {"Ref": _PARAMETER}
    return {"Fn::Sub": _with_parameter(text, names)}


def _with_parameter(text: str, names: set[str]) -> str:
    for name in names:
        text = text.replace(name, f"${{{_PARAMETER}}}")
    return text
