"""An EMR Serverless that runs nothing: jobs last and end as one says."""
