"""What a browser asks of a page's callbacks, checked before it is answered.

Dash takes any request: one that no page sends would end in a traceback.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, NoReturn, TypeVar, get_type_hints

import flask
import msgspec
from dash import Dash
from dash.exceptions import DependencyException

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
