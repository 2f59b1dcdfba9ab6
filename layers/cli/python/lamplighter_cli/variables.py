"""`lamplighter variables`: list, set and delete variables."""

from typing import Annotated

import typer
from rich.text import Text

from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.options import AsJson
from lamplighter_operations import variables

app = typer.Typer(
    help="Texts for templates and jobs, and references to their secrets.", no_args_is_help=True
)

_Name = Annotated[str, typer.Argument(help="The name of the variable.")]


@app.command("list")
@on_deployment
def list_variables(*, as_json: AsJson = False) -> None:
    """List all variables; what looks like a secret is masked."""
    found = list(variables.list_variables())
    if as_json:
        console.print_json([console.view_json(each) for each in found])
        return
    if not found:
        console.out().print("no variables yet: lamplighter variables set NAME VALUE")
        return
    table = console.Rows("variable", "value", "updated")
    for each in found:
        table.add(Text(each.name, "bold"), each.value, console.instant(each.updated_at))
    console.out().print(table)


@app.command("set")
@on_deployment
def set_variable(
    name: _Name,
    value: Annotated[
        str,
        typer.Argument(help="A text, or a reference: secretsmanager:NAME[#KEY], ssm:PARAMETER."),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Create a variable or change it; jobs that are started from now on see it."""
    changed = variables.set_variable(name, value)
    if changed.value != value:
        console.err().print(
            f"variable {name} looks like a secret, and every job can read it: store it in Secrets"
            " Manager and set the variable to secretsmanager:NAME"
        )
    if as_json:
        console.print_json(console.view_json(changed))
        return
    console.out().print(f"variable {name} is set", soft_wrap=True)


@app.command()
@on_deployment
def delete(name: _Name) -> None:
    """Delete a variable; templates that still use it fail their step."""
    variables.delete_variable(name)
    console.out().print(f"variable {name} is deleted", soft_wrap=True)
