"""Who is let in, and what the page may load."""

from __future__ import annotations

import shutil
from pathlib import Path

import flask
import pytest
from launchscope.analysis.report import load
from launchscope.dashboard.opened_report import Watched, open_bands
from launchscope.dashboard.page.server import COOKIE, Access, guard, is_loopback
from launchscope.dashboard.site.serve import build_app

from ...analysis.captures import two_modes, write_capture


def client(access: Access) -> flask.testing.FlaskClient:
    server = flask.Flask("test")
    server.get("/")(lambda: "page")
    guard(server, access, ["'sha256-abc'"])
    return server.test_client()


LOCAL = Access("127.0.0.1", 8050, None)
SHARED = Access("10.0.0.5", 8050, "secret-token")


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:8050", "[::1]:8050"])
def test_a_loopback_page_answers_to_its_own_address(host: str) -> None:
    assert client(LOCAL).get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8050", "127.0.0.1:80", "127.0.0.1.evil.example:8050"])
def test_and_to_no_other_name(host: str) -> None:
    """A name that an attacker points to 127.0.0.1 would make the browser send his page's requests here."""
    assert client(LOCAL).get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8050", "http://["]
)
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    headers = {"Host": "127.0.0.1:8050", "Origin": origin}
    assert client(LOCAL).get("/", headers=headers).status_code == 403
    headers["Origin"] = "http://127.0.0.1:8050"
    assert client(LOCAL).get("/", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.5", False),
    ],
)
def test_addresses_that_others_can_reach_get_a_token(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
    token = Access.of(host, 8050).token
    assert token is None if expected else token is not None and len(token) >= 40


def test_the_token_moves_from_the_url_into_a_cookie() -> None:
    page = client(SHARED)
    assert page.get("/").status_code == 403
    assert page.get("/?token=wrong").status_code == 403
    answer = page.get("/?token=secret-token&step=2")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/?step=2")
    cookie = answer.headers["Set-Cookie"]
    assert f"{COOKIE}-8050=secret-token" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert page.get("/?step=2").status_code == 200


def test_two_dashboards_of_one_host_let_in_each_its_own() -> None:
    """A browser sends cookies to every port of a host."""
    first, second = client(SHARED), client(Access("10.0.0.5", 8051, "other-token"))
    for page, token, other in ((first, "secret-token", second), (second, "other-token", first)):
        name, _, value = page.get(f"/?token={token}").headers["Set-Cookie"].partition(";")[0].partition("=")
        other.set_cookie(name, value)
    assert (first.get("/").status_code, second.get("/").status_code) == (200, 200)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_on_another_site_is_refused_though_it_is_opened_as_a_page(site: str) -> None:
    headers = {"Host": "127.0.0.1:8050", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
    answer = client(LOCAL).get("/", headers={**headers, "Sec-Fetch-Site": site})
    assert answer.status_code == 403
    assert "paste the address" in answer.text
    for own in ("none", "same-origin"):
        assert client(LOCAL).get("/", headers={**headers, "Sec-Fetch-Site": own}).status_code == 200
    shared = client(SHARED)
    assert shared.get("/?token=secret-token", headers={"Sec-Fetch-Site": site}).status_code == 302
    assert shared.get("/", headers={"Sec-Fetch-Site": site}).status_code == 403
    assert shared.get("/", headers={"Sec-Fetch-Site": "none"}).status_code == 200


def test_a_redirect_stays_here() -> None:
    assert client(SHARED).get("//evil.example/?token=secret-token").headers["Location"].startswith("/")
    assert not client(SHARED).get("//evil.example/?token=secret-token").headers["Location"].startswith("//")


def test_the_page_may_load_from_here_alone() -> None:
    headers = client(LOCAL).get("/", headers={"Host": "127.0.0.1:8050"}).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self' 'sha256-abc';" in policy
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_an_address_in_ipv6_is_written_in_brackets() -> None:
    assert Access("::1", 8050, None).url == "http://[::1]:8050/"
    assert SHARED.url == "http://10.0.0.5:8050/?token=secret-token"


def test_a_download_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    folder = write_capture(tmp_path / "capture", two_modes())
    shutil.rmtree(folder / "traces")
    page = build_app(open_bands(load(folder)), LOCAL, Watched.of([folder])).server.test_client()
    answer = page.get("/download/trace.pftrace", headers={"Host": "127.0.0.1:8050"})
    assert answer.status_code == 409
    assert "no trace of this capture can be read" in answer.text
    assert page.get("/download/report.json", headers={"Host": "127.0.0.1:8050"}).status_code == 200
