"""The `lamplighter` command. Never part of a Lambda."""
