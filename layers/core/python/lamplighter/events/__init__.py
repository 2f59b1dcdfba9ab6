"""Asset events: record each once, and fan out to its consumers."""
