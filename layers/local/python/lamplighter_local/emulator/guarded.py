"""Keeps web pages and other users of this machine away from an emulator on 127.0.0.1.

A browser lets any page send requests to this machine; what it pushed into the emulated S3 would be
run. So every request must be signed with an access key, which no page has, and whatever a browser
sends on behalf of a page is refused even before that.

Owns: who is served. Refuses: requests with an `Origin`, from another site, for another `Host`,
without the right signature, or for moto's own control paths. Sends no headers of CORS.
"""

import hmac
import io
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]

# Read by `aws` and other programs as the code of the error.
ERROR_CODE = "AccessDeniedException"

_NO_WEB_PAGES = "web pages are not served here"
_NO_CONTROL = "the emulator's control paths are switched off"
_UNSIGNED = "the request is not signed (AWS Signature Version 4, in the Authorization header)"
_WRONG_KEY = (
    "the request is not signed with the access key of this session of `lamplighter dev`: use"
    " `lamplighter --local`, or the credentials file that `dev` names when it starts"
)
_CONTROL_PATH = "/moto-api"
_SIGNATURE = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/,\s]+)/\d{8}/(?P<region>[^/,\s]+)/(?P<service>[^/,\s]+)"
    r"/aws4_request,\s*SignedHeaders=(?P<headers>[^,\s]+),\s*Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class AccessKey:
    """What a request must be signed with."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        """Return a key that nobody can guess."""
        return cls(f"LOCAL{secrets.token_hex(16).upper()}", secrets.token_urlsafe(32))


@dataclass(frozen=True)
class Incoming:
    """A request as far as it decides whether it is served.

    Names of headers are in lower case, and with dashes: WSGI cannot tell an underscore from one.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    # Read only when all else is in order: before that, anyone could send any amount.
    body: Callable[[], bytes] = bytes


def guarded(application: Application, *, port: int, key: AccessKey | None) -> Application:
    """Return an application that serves only those who sign with the key, or with any for None."""

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        is_control = environ["PATH_INFO"].startswith(_CONTROL_PATH)
        reason = refusal_reason(_incoming(environ), port=port, key=key)
        if is_control or reason is not None:
            return _refuse(reason or _NO_CONTROL, environ, start_response)

        def start_without_cors(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            kept = [each for each in headers if not each[0].lower().startswith("access-control-")]
            return start_response(status, kept, *more)

        return application(environ, start_without_cors)

    return serve


def refusal_reason(request: Incoming, *, port: int, key: AccessKey | None) -> str | None:
    """Return in one line why a request is not served, or None if it is."""
    if _is_of_a_page(request):
        return _NO_WEB_PAGES
    if request.headers.get("host") not in _hosts(port):
        return f"this is 127.0.0.1:{port}, and nobody is served under another name"
    signed = _SIGNATURE.fullmatch(request.headers.get("authorization", ""))
    if signed is None:
        return _UNSIGNED
    if key is not None and not _is_signed_with(key, request, signed):
        return _WRONG_KEY
    return None


def _is_of_a_page(request: Incoming) -> bool:
    """Say whether a browser sends it for a page: programs have no origin and ask nobody first."""
    site = request.headers.get("sec-fetch-site", "none")
    return "origin" in request.headers or site != "none" or request.method == "OPTIONS"


def _hosts(port: int) -> set[str]:
    # A page can let its own name lead to 127.0.0.1, but the browser goes on sending that name.
    return {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}


def _is_signed_with(key: AccessKey, request: Incoming, signed: re.Match[str]) -> bool:
    """Say whether the signature is what botocore computes with the key for the same request."""
    if not _is_equal(signed["id"], key.id):
        return False
    kind = S3SigV4Auth if signed["service"] == "s3" else SigV4Auth
    signer = kind(Credentials(key.id, key.secret), signed["service"], signed["region"])
    names = signed["headers"].split(";")
    headers = {name: request.headers.get(name.replace("_", "-"), "") for name in names}
    copy = AWSRequest(
        method=request.method,
        url=f"http://{request.headers['host']}{request.target}",
        headers=headers,
        data=request.body() if "x-amz-content-sha256" not in names else b"",
    )
    copy.context["timestamp"] = request.headers.get("x-amz-date", "")
    text = signer.string_to_sign(copy, signer.canonical_request(copy))
    return _is_equal(signed["signature"], signer.signature(text, copy))


def _is_equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


# WSGI.


def _incoming(environ: dict[str, Any]) -> Incoming:
    def body() -> bytes:
        # Left for the application to read again.
        is_chunked = environ.get("wsgi.input_terminated", False)
        size = -1 if is_chunked else int(environ.get("CONTENT_LENGTH") or 0)
        content: bytes = environ["wsgi.input"].read(size)
        environ["wsgi.input"] = io.BytesIO(content)
        return content

    headers = {
        name.removeprefix("HTTP_").lower().replace("_", "-"): text
        for name, text in environ.items()
        if name.startswith("HTTP_") or name in {"CONTENT_TYPE", "CONTENT_LENGTH"}
    }
    return Incoming(environ["REQUEST_METHOD"], environ["REQUEST_URI"], headers, body)


def _refuse(reason: str, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    body = f"{reason}\n".encode()
    start_response(
        "403 Forbidden",
        [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("x-amzn-errortype", ERROR_CODE),
        ],
    )
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
