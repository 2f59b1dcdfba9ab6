"""Turning due times into runs: find what is due, claim it once, look a little ahead."""
