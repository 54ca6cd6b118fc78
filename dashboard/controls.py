"""Controls with their labels, as components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html


def choice(name: str, options: Sequence[tuple[str, str]], value: str, label: str) -> html.Div:
    radios = dcc.RadioItems(
        id=name, options=[{"value": key, "label": text} for key, text in options], value=value, inline=True
    )
    return html.Div(
        [html.Span(label, id=f"{name}-label"), radios], role="group", **attribute("aria-labelledby", f"{name}-label")
    )


def labelled(label: str, name: str, control: Any) -> html.Div:
    return html.Div([html.Label(label, htmlFor=name), control], className="labelled")


def named(label: str) -> dict[str, Any]:
    return attribute("aria-label", label)


def attribute(name: str, value: str) -> dict[str, Any]:
    """An attribute whose name is no Python name."""
    return {name: value}
