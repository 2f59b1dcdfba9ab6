"""Shared streams in Lambda: a batch of a queue as a stream, and short polls of other sources."""
