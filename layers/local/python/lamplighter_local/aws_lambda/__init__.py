"""The function `task` on this machine: it runs jobs of Python tasks, or only pretends to."""
