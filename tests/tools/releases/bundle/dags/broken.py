"""A file that cannot be imported, so that there is an import error to store."""

raise ValueError("this file is broken on purpose")
