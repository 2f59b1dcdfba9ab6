"""A flag for each region: two watchers share one scan of a folder, each with a file of its own.

    load_north   `north.flag` is there   `north_ready`   ┐ one scan of
    load_south   `south.flag` is there   `south_ready`   ┘ the folder for both

Try it in real time, with a second terminal for the flag:

    lamplighter dev examples/watchers --instant
    cd "$(python3 -c 'import tempfile; print(tempfile.gettempdir())')"
    mkdir -p shop/flags
    touch shop/flags/north.flag
"""

from pathlib import Path
from tempfile import gettempdir

from lamplighter import DAG, Asset, AssetWatcher, SparkTask
from triggers.flag_files import FlagFileTrigger

# Deployed, this is a folder of a file system that the function `watch` has mounted.
FLAGS = str(Path(gettempdir()) / "shop" / "flags")

for region in ("north", "south"):
    trigger = FlagFileTrigger(folder=FLAGS, name=f"{region}.flag")
    ready = Asset(f"{region}_ready", watchers=[AssetWatcher("flag", trigger)])
    with DAG(f"load_{region}", schedule=ready, description=f"Shows the flags of the {region}"):
        SparkTask("count", job="jobs.arrivals:count")
