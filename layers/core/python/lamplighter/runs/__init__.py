"""Runs: states, decisions and their effects."""
