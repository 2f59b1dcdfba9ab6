"""Runs over a range of the past: planned first, then created, a few at a time, until all are."""
