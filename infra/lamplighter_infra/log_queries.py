"""Queries of the functions' logs, for Logs Insights and the dashboard.

Owns: their texts. `lamplighter.store.runs.log_move` writes the line that most of them read.
"""

# The functions that change the states of runs; queries are billed by what they scan.
MOVING_RUNS = ("tick", "claim", "ingest", "submit", "settle", "sweep")

_RUN_MOVED = 'filter message = "run changed its state"'

SAVED = {
    "state changes of runs": (
        "fields @timestamp, service, dag_id, run_id, from, to, function_request_id"
        f" | {_RUN_MOVED} | sort @timestamp desc | limit 200"
    ),
    "errors": (
        "fields @timestamp, service, level, message, exception, function_request_id"
        ' | filter level in ["ERROR", "CRITICAL"] | sort @timestamp desc | limit 200'
    ),
    "messages that come again": (
        "fields @timestamp, service, message"
        " | filter message like /delivered again/ | stats count(*) by service, bin(5m)"
    ),
    "slow calls": (
        'filter @type = "REPORT"'
        " | stats max(@duration), avg(@duration), max(@maxMemoryUsed), max(@initDuration) by @log"
    ),
}

# Tables of the dashboard, by title. Nothing but `limit` may follow `dedup`.
TABLES = {
    "Recent runs, with their newest state": (
        "fields @timestamp, dag_id, run_id, to"
        f" | {_RUN_MOVED} | sort @timestamp desc | dedup dag_id, run_id | limit 50"
    ),
    "Finished runs by DAG, failed first": (
        f'{_RUN_MOVED} and to in ["success", "failed", "cancelled"]'
        ' | stats sum(strcontains(to, "failed")) as failed, count(*) as finished by dag_id'
        " | sort failed desc, finished desc | limit 50"
    ),
    "Failed runs": (
        "fields @timestamp, dag_id, run_id"
        f' | {_RUN_MOVED} and to = "failed" | sort @timestamp desc | limit 50'
    ),
}
