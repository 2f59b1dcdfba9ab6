from __future__ import annotations

from airflow.sdk import dag, task


@dag(dag_id="team.reports", schedule="0 9 * * 1", doc_md=__doc__, max_active_tasks=2)
def reports() -> None:
    @task(task_id="make-report", trigger_rule="all_done")
    def make(rows: int | None = None) -> str:
        return f"{rows} rows"

    @task
    def send(text: str) -> None:
        print(text)

    done = make(rows=7)
    send(done)
    send("again")


reports()
