"""``launchscope demo --dashboard`` is served where it is told to."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from launchscope.analysis.report import Report
from launchscope.cli.dashboard import demo
from launchscope.dashboard.site import serve


@pytest.mark.parametrize(
    ("options", "host", "ports", "browser"),
    [
        ([], "127.0.0.1", range(8050, 8100), True),
        (["--no-browser", "--port", "0"], "127.0.0.1", (0,), False),
        (["--host", "10.0.0.5"], "10.0.0.5", range(8050, 8100), True),
    ],
)
def test_the_demo_takes_the_dashboards_options(
    monkeypatch: pytest.MonkeyPatch, options: list[str], host: str, ports: Any, browser: bool
) -> None:
    told: dict[str, Any] = {}
    monkeypatch.setattr(serve, "serve", lambda report, watched, **more: told.update(more, report=report))
    result = CliRunner().invoke(demo, ["--dashboard", *options])
    assert result.exit_code == 0, result.output
    assert isinstance(told["report"], Report)
    assert (told["host"], told["ports"], told["browser"]) == (host, ports, browser)
