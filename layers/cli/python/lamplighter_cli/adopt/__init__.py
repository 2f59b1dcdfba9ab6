"""`lamplighter adopt`: what of Airflow DAG files moves, and their translation.

Files are read as syntax trees; nothing in them is imported or run.
"""
