"""Bundles become rows: pushing them, asking the sandbox, and writing what they define."""
