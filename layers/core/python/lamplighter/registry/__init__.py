"""Registration of bundles: pushes, the sandbox, and the rows of what bundles define."""
