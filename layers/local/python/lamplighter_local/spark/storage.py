"""Whole files by their URI: in S3, which moto may be, or on disk."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from lamplighter import aws


def read(uri: str) -> bytes:
    """Return the content of a file."""
    parts = urlsplit(uri)
    if parts.scheme in {"s3", "s3a"}:
        answer = aws.client("s3").get_object(Bucket=parts.netloc, Key=parts.path.lstrip("/"))
        content: bytes = answer["Body"].read()
        return content
    return _path(uri).read_bytes()


def write(uri: str, content: bytes) -> None:
    """Put a file there, whether there was one or not."""
    parts = urlsplit(uri)
    if parts.scheme in {"s3", "s3a"}:
        key = parts.path.lstrip("/")
        aws.client("s3").put_object(Bucket=parts.netloc, Key=key, Body=content)
    else:
        _path(uri).write_bytes(content)


def _path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path)) if uri.startswith("file:") else Path(uri)
