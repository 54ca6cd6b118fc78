"""What ``launchscope dashboard`` prints: an address that can be opened, wherever it serves."""

from __future__ import annotations

import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import flask
import pytest
from launchscope.dashboard.page.server import Access, guard
from launchscope.dashboard.site import serve
from werkzeug.serving import BaseWSGIServer, make_server


@contextmanager
def said_of(host: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is said while a page is served on this host, and its server answers."""
    servers, said = list[BaseWSGIServer](), list[str]()
    ready = threading.Event()

    def made(*given: object, **named: object) -> BaseWSGIServer:
        servers.append(make_server(*given, **named))  # type: ignore[arg-type]
        return servers[0]

    def site(access: Access) -> flask.Flask:
        page = flask.Flask("page")
        page.get("/")(lambda: "the page")
        guard(page, access, [])
        return page

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            ready.set()

    monkeypatch.setattr(serve, "make_server", made)

    def run() -> None:
        serve._serve(site, host=host, ports=[0], browser=False, say=say)

    running = threading.Thread(target=run, daemon=True)
    running.start()
    assert ready.wait(10)
    yield said
    servers[0].shutdown()
    running.join(10)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_on_all_addresses_each_that_is_printed_opens_the_page(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if host == "::" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with said_of(host, monkeypatch) as said:
        urls = [url for line in said for url in re.findall(r"http://\S+", line)]
        assert urls
        assert not [url for url in urls if "//0.0.0.0" in url or "//[::]" in url]
        for url in urls:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
            assert opener.open(url, timeout=10).read() == b"the page"


def test_where_no_address_is_known_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "address_for_others", lambda *, of_version_6: None)
    with said_of("0.0.0.0", monkeypatch) as said:
        assert re.match(r"open http://localhost:\d+/\?token=\S+ ", said[0])
        assert said[1].startswith("no address that others could open is known")
