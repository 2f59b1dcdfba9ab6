"""What happens in the shop, as it happens: a log that two watchers share, and an inbox of its own.

    count_orders    each order in the log     `shop_orders`   ┐ one reading of
    count_returns   each return in the log    `shop_returns`  ┘ the log for both
    load_prices     each new price list       `price_lists`     a folder

Try it in real time, with a second terminal for the lines and the file:

    lamplighter dev examples/watchers --instant
    cd "$(python3 -c 'import tempfile; print(tempfile.gettempdir())')"
    mkdir -p shop/log shop/inbox
    echo '{"kind": "order", "amount": 120}' >> shop/log/till-1.log
    echo 'lamp;12' > shop/inbox/prices-2026-01.csv
"""

from pathlib import Path
from tempfile import gettempdir

from lamplighter import DAG, Asset, AssetWatcher, SparkTask
from triggers.directory import DirectoryTrigger
from triggers.partition_log import PartitionLogTrigger

# Deployed, this is a folder of a file system that the function `watch` has mounted.
SHOP = Path(gettempdir()) / "shop"
LOG = str(SHOP / "log")
INBOX = str(SHOP / "inbox")

orders = Asset(
    "shop_orders",
    watchers=[AssetWatcher("log", PartitionLogTrigger(folder=LOG, kind="order"))],
)
returns = Asset(
    "shop_returns",
    watchers=[AssetWatcher("log", PartitionLogTrigger(folder=LOG, kind="return"))],
)
price_lists = Asset(
    "price_lists",
    watchers=[AssetWatcher("inbox", DirectoryTrigger(INBOX, "prices-*.csv"))],
)

with DAG("count_orders", schedule=orders, description="Counts the orders that came"):
    SparkTask("count", job="jobs.arrivals:count")

with DAG("count_returns", schedule=returns, description="Counts the returns that came"):
    SparkTask("count", job="jobs.arrivals:count")

with DAG("load_prices", schedule=price_lists, description="Shows the price lists that came"):
    SparkTask("count", job="jobs.arrivals:count")
