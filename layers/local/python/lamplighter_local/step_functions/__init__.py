"""A Step Functions on this machine whose state machines are functions of a test, or nothing."""
