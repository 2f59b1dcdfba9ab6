"""A deployment in real time, on this machine: what `lamplighter dev` runs."""
