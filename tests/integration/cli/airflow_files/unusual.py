# -*- coding: utf-8 -*-
import airflow.operators.empty as e; from airflow import DAG as D
from datetime import datetime as dt
try:
    from airflow.providers.standard.operators.python import PythonOperator as P
except ImportError:
    from airflow.operators.python import PythonOperator as P
if (n := 2) > 1:
    pass
def ünicode(): print("grüezi", "\N{SNOWMAN}", '''a
b''')
def wrapper(**options):
    return P(python_callable=ünicode, **options)
with D("unusual", schedule="5 4 * * sun", start_date=dt(2024, 1, 1)) as d: a = e.EmptyOperator(task_id="a"); b = P(task_id="b", python_callable=ünicode)
a >> b
class Empty: ...
match n:
    case 2:
        c = e.EmptyOperator(task_id="c", dag=d)
    case _:
        c = None
b >> c
assert (lambda *x, y=1, **z: y)() == 1
