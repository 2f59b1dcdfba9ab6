"""Timetables: the rules that say when runs happen. Modules are named as in Airflow."""
