"""A script that does nothing."""
