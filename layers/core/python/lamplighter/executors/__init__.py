"""Executors of Spark jobs, such as EMR Serverless."""
