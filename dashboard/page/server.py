"""Who may talk to the page: this machine's own browser, or whoever holds the token. And what the page may load: itself.

A loopback address is open to everyone who is logged in on the machine (docs/dashboard.md says how to close it).
"""

from __future__ import annotations

import functools
import hmac
import inspect
import json
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar, get_type_hints
from urllib.parse import urlencode

import flask
import msgspec
from dash import Dash
from dash.exceptions import DependencyException
from flask_compress import Compress

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from werkzeug.wrappers import Response


class _Compressed:
    """Files of packages as they are sent, the first few hundred ones that are asked for: the same to every page."""

    MOST: Final = 200

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._known.get(key)

    def set(self, key: str, value: bytes) -> None:
        if not key.endswith(_CHANGES) and len(self._known) < self.MOST:
            self._known[key] = value


_COMPRESSED: Final = _Compressed()
_CHANGES: Final = "?"


def _package_file(request: flask.Request) -> str:
    """The path of a file that stays the same as long as launchscope runs."""
    return request.path if request.path.startswith("/_dash-component-suites/") else _CHANGES


COOKIE: Final = "launchscope-token"
"""Begins the name of the cookie; a browser sends those of all ports of a host, so the port ends it."""
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Access:
    """Where the page is served; ``token`` is null on a loopback address."""

    host: str
    port: int
    token: str | None

    @classmethod
    def of(cls, host: str, port: int) -> Access:
        """A token for every address that others can reach."""
        return cls(host, port, None if is_loopback(host) else secrets.token_urlsafe(32))

    @property
    def url(self) -> str:
        """What to open, the token included."""
        return self.url_at(self.host)

    def url_at(self, host: str) -> str:
        """The same under another name or address of this machine."""
        named = f"[{host}]" if ":" in host else host
        query = "" if self.token is None else f"?token={self.token}"
        return f"http://{named}:{self.port}/{query}"

    @property
    def cookie(self) -> str:
        """The name of the cookie that holds the token."""
        return f"{COOKIE}-{self.port}"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def guard(server: flask.Flask, access: Access, script_hashes: Sequence[str]) -> None:
    """Refuse requests from elsewhere, compress what is sent, and forbid the page to load anything from outside."""
    server.config |= {"COMPRESS_CACHE_BACKEND": lambda: _COMPRESSED, "COMPRESS_CACHE_KEY": _package_file}
    Compress(server)
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src 'self' {' '.join(script_hashes)}",
            "style-src 'self' 'unsafe-inline'",  # plotly and dash style their elements
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )

    @server.before_request
    def admit() -> Response | None:
        if access.token is None and not _is_own_host(flask.request.host, access):
            flask.abort(403, "this page answers to its own address only: open the one that launchscope printed")
        origin = flask.request.headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != flask.request.host:
            flask.abort(403, "a page of another site asked for this")
        if access.token is None:
            _require_own_link()
            return None
        return _check_token(access.token, access.cookie)

    @server.after_request
    def restrict(response: flask.Response) -> flask.Response:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin-allow-popups"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        return response


def _is_own_host(host: str, access: Access) -> bool:
    names = (*_LOOPBACK_NAMES, access.host)
    return host in {f"{name}:{access.port}" for name in names} or (access.port == 80 and host in names)


def _require_own_link() -> None:
    """Refuse what a page of another site leads to, a click included: opening a page may start to read files."""
    if flask.request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        flask.abort(403, "a page of another site led here: paste the address into the browser to open it")


def _check_token(token: str, cookie: str) -> Response | None:
    """A token in the URL moves into a cookie that scripts can't read; without either the request is refused."""
    given = flask.request.args.get("token")
    if given is not None and _is_equal(given, token):
        others = [(name, value) for name, value in flask.request.args.items(multi=True) if name != "token"]
        target = flask.request.script_root + flask.request.path + (f"?{urlencode(others)}" if others else "")
        response = flask.redirect("/" + target.lstrip("/\\"))
        response.set_cookie(cookie, token, httponly=True, samesite="Strict", path="/")
        return response
    if not _is_equal(flask.request.cookies.get(cookie, ""), token):
        flask.abort(403, "open the address with the token that launchscope printed")
    _require_own_link()
    return None


def _is_equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def with_pages(first: WSGIApplication, below: str, page_of: Callable[[str], WSGIApplication | None]) -> WSGIApplication:
    """An app that answers with the page of the name that follows ``below`` in a request's path, else with the first."""

    def dispatch(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path: str = environ.get("PATH_INFO", "")
        name, slash, rest = path.removeprefix(below).partition("/")
        page = page_of(name) if slash and path.startswith(below) else None
        if page is None:
            return first(environ, start_response)
        root = environ.get("SCRIPT_NAME", "") + below + name
        return page(environ | {"SCRIPT_NAME": root, "PATH_INFO": f"/{rest}"}, start_response)

    return dispatch


_CALLBACKS: Final = "_dash-update-component"

Width = Annotated[int, msgspec.Meta(ge=0, le=32_768)]
"""Of the figures of a page, in pixels."""

Answer = TypeVar("Answer")


class _Part(msgspec.Struct):
    """A component's property, with its value where it is an input; the id of one of a pattern is an object."""

    id: str | dict[str, str | int]
    property: str
    value: Any = None


_Parts = list[_Part | list[_Part]]


class _Request(msgspec.Struct, rename={"changed": "changedPropIds"}):
    """The body of a request. A list in a list has the parts that match a pattern."""

    output: str
    outputs: _Part | _Parts
    inputs: _Parts
    changed: list[str]
    state: _Parts = []


def refuse_malformed(app: Dash) -> None:
    """Answer a request that none of the app's callbacks sends with 400 and one line. The guard comes before."""
    rules = app.server.url_map.iter_rules()
    endpoint = next(rule.endpoint for rule in rules if rule.rule.endswith(_CALLBACKS))
    answer = app.server.view_functions[endpoint]

    @functools.wraps(answer)
    def checked(*args: Any, **named: Any) -> Any:
        try:
            request = msgspec.json.decode(flask.request.get_data(), type=_Request)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            refuse(str(error))
        callback = app.callback_map.get(request.output, {})
        if "callback" not in callback:  # the browser answers some by itself
            refuse("the page has no such callback")
        if not (_has_its_parts(request, callback) and all(map(_is_property, request.changed))):
            refuse("the callback has other inputs and outputs")
        return answer(*args, **named)

    app.server.view_functions[endpoint] = checked
    app.server.register_error_handler(DependencyException, lambda _: ("no such file\n", HTTPStatus.NOT_FOUND))


def of_declared_types(callback: Callable[..., Answer]) -> Callable[..., Answer]:
    """The callback, for which a request with values of other types than those of its parameters is refused."""
    types = get_type_hints(callback, include_extras=True)
    parameters = inspect.signature(callback)

    @functools.wraps(callback)
    def checked(*args: Any, **named: Any) -> Answer:
        for name, value in parameters.bind(*args, **named).arguments.items():
            require(value, types[name])
        return callback(*args, **named)

    return checked


def require(value: Any, kind: Any) -> None:
    """Refuse the request unless a value, as JSON has it, is of this type."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        refuse(str(error))


def refuse(why: str) -> NoReturn:
    """Answer 400 with a line that says what is wrong with the request."""
    text = f"not a request of this page: {why}; load the page again"
    flask.abort(flask.Response(f"{text}\n", HTTPStatus.BAD_REQUEST, mimetype="text/plain"))


def _has_its_parts(request: _Request, callback: Mapping[str, Any]) -> bool:
    output = callback["output"]
    outputs = [request.outputs] if isinstance(request.outputs, _Part) else request.outputs
    declared = [{"id": each.component_id, "property": each.component_property} for each in _listed(output)]
    return isinstance(request.outputs, list) == isinstance(output, (list, tuple)) and all(
        len(given) == len(known) and all(map(_fits, given, known))
        for given, known in [
            (outputs, declared),
            (request.inputs, callback["inputs"]),
            (request.state, callback["state"]),
        ]
    )


def _listed(output: Any) -> list[Any]:
    return list(output) if isinstance(output, (list, tuple)) else [output]


def _fits(given: _Part | list[_Part], declared: Mapping[str, str]) -> bool:
    name, known = declared["id"], declared["property"]
    if not name.startswith("{"):
        return isinstance(given, _Part) and (given.id, given.property) == (name, known)
    keys = json.loads(name).keys()  # a pattern
    return isinstance(given, list) and all(
        isinstance(each.id, dict) and each.id.keys() == keys and each.property == known for each in given
    )


def _is_property(name: str) -> bool:
    """Whether a name is a component's id, a dot and a property; Dash decodes the id of a pattern as JSON."""
    component, dot, _ = name.rpartition(".")
    if not component.startswith("{"):
        return bool(dot)
    try:
        msgspec.json.decode(component, type=dict[str, str | int])
    except msgspec.MsgspecError:
        return False
    return True
