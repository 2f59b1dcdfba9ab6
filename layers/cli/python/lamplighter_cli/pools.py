"""`lamplighter pools`: list, set and delete pools."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.options import AsJson
from lamplighter_operations import pools

app = typer.Typer(
    help="Limit how many steps of all DAGs run at once: SparkTask(pool=…, pool_slots=…).",
    no_args_is_help=True,
)

_Pool = Annotated[str, typer.Argument(help="The name of the pool.")]


@app.command("list")
@on_deployment
def list_pools(*, as_json: AsJson = False) -> None:
    """List all pools with their slots and how many steps wait for them."""
    found = list(pools.list_pools())
    if as_json:
        console.print_json([asdict(pool) for pool in found])
        return
    if not found:
        console.out().print("no pools yet: lamplighter pools set NAME SLOTS")
        return
    table = console.Rows("pool", "slots", "used", "waiting", "description")
    for pool in found:
        numbers = (str(pool.slots), str(pool.used), str(pool.waiting))
        table.add(Text(pool.pool, "bold"), *numbers, pool.description or "")
    console.out().print(table)


@app.command("set")
@on_deployment
def set_pool(
    pool: _Pool,
    slots: Annotated[int, typer.Argument(help="How many slots it has.", min=0)],
    *,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a pool or change its size. Running steps keep their slots."""
    changed = pools.set_pool(pool, slots, description=description)
    if as_json:
        console.print_json(asdict(changed))
        return
    console.out().print(f"pool {pool} has {slots} slots, {changed.used} in use")


@app.command()
@on_deployment
def delete(pool: _Pool) -> None:
    """Delete a pool that no step uses or waits for."""
    pools.delete_pool(pool)
    console.out().print(f"pool {pool} is deleted")
