"""Shared streams in Lambda: batches of queues as streams, and short polls of other sources."""
