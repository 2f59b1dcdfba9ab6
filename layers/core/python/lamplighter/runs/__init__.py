"""Runs: their states, how they begin and how they end."""
