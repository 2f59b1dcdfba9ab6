"""A Spark on this machine, as an executor of jobs."""
