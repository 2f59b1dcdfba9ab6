"""What runs Spark jobs: EMR Serverless, or a Spark on this machine."""
