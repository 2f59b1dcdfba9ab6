"""Who sends to a queue from outside: people and programs by their roles, or services of AWS."""

# Services that send for a resource, by the service in the resource's ARN.
_SERVICES = frozenset({"sns", "s3", "events"})
_SERVICE_AT = 2


def service_of(arn: str) -> str | None:
    """Return the service that sends for a resource; roles and accounts send themselves."""
    parts = arn.split(":")
    service = parts[_SERVICE_AT] if len(parts) > _SERVICE_AT else ""
    return service if service in _SERVICES else None
