"""Bundles: folders of DAG files, timetables and jobs, and what they define."""
