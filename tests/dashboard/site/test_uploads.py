"""Files opened in the page: a page each, bounded, and nothing left of the file itself."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flask
import pytest
from launchscope.analysis.report import Report, analyze
from launchscope.dashboard.opened_report import Watched, open_bands
from launchscope.dashboard.page.server import COOKIE, Access
from launchscope.dashboard.site.serve import build_app
from launchscope.dashboard.site.uploads import Uploads, label_of
from launchscope.fixtures.builder import trace
from werkzeug.serving import make_server
from werkzeug.test import Client, TestResponse

from ...analysis.captures import two_modes as manifest_of_two
from ...analysis.captures import write_capture
from ...analysis.many.processes import wait_for
from ..opening import two_modes

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

LOCAL = Access("127.0.0.1", 8050, None)
SHARED = Access("10.0.0.5", 8050, "secret-token")
BASE = "http://127.0.0.1:8050"
STEP = trace().step(0).launch(at=10, dur=5).kernel(at=20, dur=30).json()
NAME = "upload?name=step-3.json"


def served(access: Access = LOCAL, **limits: int) -> Client:
    return Client(served_app(access, **limits))


def served_app(access: Access = LOCAL, **limits: int) -> WSGIApplication:
    """The synthetic capture's page, to which files can be uploaded."""

    def page_of(report: Report, path: str) -> flask.Flask:
        page: flask.Flask = build_app(open_bands(report), access, Watched(()), uploads, path).server
        return page

    uploads = Uploads(page_of, **limits)
    first = build_app(two_modes(), access, Watched(()), uploads).server
    return uploads.mounted_on(first)


def post(page: Client, data: bytes, where: str = f"/{NAME}", **more: Any) -> TestResponse:
    return page.post(where, data=data, base_url=BASE, **more)


def get(page: Client, path: str) -> TestResponse:
    return page.get(path, base_url=BASE)


def report_of(page: Client, path: str) -> Any:
    return json.loads(get(page, f"{path}download/report.json").text)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go; none may be left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert not list(tmp_path.glob("launchscope-upload-*"))


def test_a_trace_gets_a_page_of_its_own() -> None:
    page = served()
    answer = post(page, STEP)
    assert answer.status_code == 201
    path = answer.headers["Location"]
    assert path.startswith("/r/")
    assert len(path) > 20
    assert "<title>step-3.json · launchscope</title>" in get(page, path).text
    assert f'src="{path}_dash-component-suites/' in get(page, path).text
    assert "step-3.json" in get(page, f"{path}_dash-layout").text
    assert "step-3.json" not in get(page, "/_dash-layout").text


def test_so_does_a_capture(tmp_path: Path) -> None:
    page = served()
    file = write_capture(tmp_path / "capture.zip", manifest_of_two())
    path = post(page, file.read_bytes(), "/upload?name=mine.zip").headers["Location"]
    report = report_of(page, path)
    assert report["traces"][0]["source"]["path"].startswith("mine.zip/traces/")
    assert list(report["profile"]["modes"]) == ["eager", "graph"]


def test_nothing_names_the_temporary_file(temporary: Path) -> None:
    page = served()
    path = post(page, STEP).headers["Location"]
    for name in ("report.json", "report.html", "gaps.csv"):
        answer = get(page, f"{path}download/{name}")
        assert answer.status_code == 200
        assert str(temporary) not in answer.text
    (found,) = report_of(page, path)["traces"]
    assert (found["name"], found["source"]["path"]) == ("step-3.json", "step-3.json")


@pytest.mark.parametrize(("name", "rank"), [("rank_3.json", 3), ("step-3.json", None)])
def test_its_name_tells_its_rank_as_on_the_command_line(name: str, rank: int | None, tmp_path: Path) -> None:
    page = served()
    path = post(page, STEP, f"/upload?name={name}").headers["Location"]
    (tmp_path / name).write_bytes(STEP)
    (opened,) = analyze(tmp_path / name).document.traces
    assert report_of(page, path)["traces"][0]["rank"] == opened.rank == rank


def test_another_is_opened_from_an_uploaded_page() -> None:
    page = served()
    first = post(page, STEP).headers["Location"]
    second = post(page, STEP, first + NAME).headers["Location"]
    assert second.startswith("/r/")
    assert second != first
    assert get(page, first).status_code == get(page, second).status_code == 200


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ("step-3.json.gz", "step-3.json.gz"),
        ("../../etc/passwd", "passwd"),
        (r"C:\traces\step.json", "step.json"),
        ("a\n\x00\u202eb.json", "ab.json"),
        ("шаг.json", "шаг.json"),
        ("x" * 5000, "x" * 100),
        ("..", ".."),  # it names no file
        ("/", "upload"),
        ("", "upload"),
    ],
)
def test_a_files_name_is_a_label(given: str, label: str) -> None:
    assert label_of(given) == label


def test_a_name_with_markup_shows_as_text() -> None:
    page = served()
    name = "%3C%2Ftitle%3E%3Cimg%20src%3Dx%3E%7B%25config%25%7D.json"  # </title><img src=x>{%config%}.json
    text = get(page, post(page, STEP, f"/upload?name={name}").headers["Location"]).text
    assert "<img" not in text
    assert "<title>title&gt;&lt;img src=x&gt;{&#37;config%}.json · launchscope</title>" in text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "step-3.json: empty (0 bytes)"),
        (b"no trace", "step-3.json: not a trace"),
        (trace().step(0).launch(at=10, dur=5).json(), "step-3.json: "),
        (b"PK\5\6" + bytes(18), "step-3.json: a .zip without a trace"),
    ],
)
def test_what_is_no_trace_of_a_gpu_is_refused_in_one_line(data: bytes, reason: str, temporary: Path) -> None:
    answer = post(served(), data)
    assert (answer.status_code, answer.mimetype) == (422, "text/plain")
    assert answer.text.startswith(reason)
    assert answer.text.count("\n") == 1
    assert str(temporary) not in answer.text


def test_a_length_over_the_limit_is_refused_at_once() -> None:
    body = _Endless()
    environ = {"wsgi.input": body, "CONTENT_LENGTH": str(2 << 20)}
    answer = served(most_bytes=1 << 20).post(f"/{NAME}", environ_overrides=environ, base_url=BASE)
    assert answer.status_code == 413
    assert answer.text == "step-3.json: over 1 MiB; give it to launchscope dashboard instead\n"
    assert body.taken == 0


def test_a_body_without_a_length_is_refused_once_it_is_over_the_limit() -> None:
    """As a chunked one has none."""
    body = _Endless()
    environ = {"wsgi.input": body, "wsgi.input_terminated": True}
    answer = served(most_bytes=3 << 20).post(f"/{NAME}", environ_overrides=environ, base_url=BASE)
    assert answer.status_code == 413
    assert body.taken == 3 << 20
    assert body.largest <= 1 << 20  # it is never held as a whole


def test_a_body_that_ends_early_is_no_page() -> None:
    environ = {"wsgi.input": io.BytesIO(STEP[:50]), "CONTENT_LENGTH": str(len(STEP))}
    answer = served().post(f"/{NAME}", environ_overrides=environ, base_url=BASE)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "head", ["Content-Length: 1000\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n5\r\nabc"], ids=["length", "chunks"]
)
def test_a_sender_that_falls_silent_makes_room_for_others(
    head: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Through a real socket; no traceback reaches the terminal."""
    monkeypatch.setattr("launchscope.dashboard.site.uploads.PATIENCE_S", 0.1)
    server = make_server("127.0.0.1", 0, served_app(), threaded=True)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sender:
        sender.sendall(f"POST /{NAME} HTTP/1.1\r\nHost: 127.0.0.1:8050\r\n{head}".encode())
        assert sender.recv(100).startswith(b"HTTP/1.1 400")
        sender.sendall(b"more")
    server.shutdown()
    serving.join()
    assert "Traceback" not in capfd.readouterr().err


def test_a_sender_that_trickles_has_no_more_time_than_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte every 10 ms is never silent."""
    monkeypatch.setattr("launchscope.dashboard.site.uploads.UPLOAD_S", 0.3)
    monkeypatch.setattr("launchscope.dashboard.site.uploads._BLOCK_BYTES", 1)
    server = make_server("127.0.0.1", 0, served_app(), threaded=True)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.01) as sender:
        sender.sendall(f"POST /{NAME} HTTP/1.1\r\nHost: 127.0.0.1:8050\r\nContent-Length: 9000\r\n\r\n".encode())
        answer, begun = b"", time.monotonic()
        while not answer.endswith(b"send it again\n") and time.monotonic() < begun + 20:
            with contextlib.suppress(TimeoutError):
                answer += sender.recv(1000)
            if not answer:
                sender.sendall(b"{")
    server.shutdown()
    serving.join()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"step-3.json: it did not come whole" in answer


def test_as_many_as_a_team_wait_for_one_that_is_slow() -> None:
    held = Held()
    held.send("first.json")
    wait_for(lambda: held.read)
    names = [f"rank{rank}.json" for rank in range(20)]
    for name in names:
        held.send(name)
    wait_for(lambda: sorted(map(held.before, names)) == list(range(1, 21)))
    assert set(held.end().values()) == {201}


class Held:
    """A page whose files are read one by one as the test lets them, each in a thread that sends it."""

    def __init__(self, **limits: Any) -> None:
        self.read: list[str] = []
        self.go_on = threading.Semaphore(0)
        self.answers: dict[str, TestResponse] = {}
        self._uploads = Uploads(self._page_of, **limits)
        self.app = self._uploads.mounted_on(build_app(two_modes(), LOCAL, Watched(()), self._uploads).server)
        self._senders: list[threading.Thread] = []

    def _page_of(self, report: Report, path: str) -> flask.Flask:
        self.read.append(report.document.traces[0].name)
        assert self.go_on.acquire(timeout=30)
        return flask.Flask("page")

    def send(self, name: str, **more: Any) -> None:
        def post_it() -> None:
            self.answers[name] = post(Client(self.app), STEP, f"/upload?name={name}&ticket={name}", **more)

        self._senders.append(threading.Thread(target=post_it))
        self._senders[-1].start()

    def before(self, name: str) -> int:
        return int(get(Client(self.app), f"/upload/before?ticket={name}").text)

    def end(self) -> dict[str, int]:
        """Let all be read; the status of each answer."""
        self.go_on.release(len(self._senders))
        for sender in self._senders:
            sender.join(30)
        return {name: answer.status_code for name, answer in self.answers.items()}


def test_files_wait_for_their_turn_and_are_told_how_many_are_before_them() -> None:
    held = Held()
    held.send("first.json")
    wait_for(lambda: held.read)
    for place, name in enumerate(("second.json", "third.json"), 1):
        held.send(name)
        wait_for(lambda name=name, place=place: held.before(name) == place)  # type: ignore[misc]
    assert held.before("first.json") == held.before("unknown") == 0
    assert held.read == ["first.json"]
    held.go_on.release()
    wait_for(lambda: held.read == ["first.json", "second.json"])
    assert held.before("third.json") == 1
    assert held.end() == {"first.json": 201, "second.json": 201, "third.json": 201}
    assert held.read == ["first.json", "second.json", "third.json"]


def test_nothing_of_a_file_that_waits_is_taken() -> None:
    held, body = Held(most_bytes=1 << 20), _Endless()
    held.send("first.json")
    wait_for(lambda: held.read)
    held.send("second.json", environ_overrides={"wsgi.input": body, "wsgi.input_terminated": True})
    wait_for(lambda: held.before("second.json") == 1)
    assert body.taken == 0
    assert held.end() == {"first.json": 201, "second.json": 413}


def test_one_more_than_may_wait_is_refused_at_once() -> None:
    held = Held(most_waiting=1)
    held.send("first.json")
    wait_for(lambda: held.read)
    held.send("second.json")
    wait_for(lambda: held.before("second.json") == 1)
    refused = post(Client(held.app), STEP, "/upload?name=third.json")
    assert (refused.status_code, refused.mimetype) == (503, "text/plain")
    assert refused.text == "third.json: 1 file is waiting to be read already; try again later\n"
    assert held.end() == {"first.json": 201, "second.json": 201}


def test_one_that_has_waited_too_long_leaves_the_line() -> None:
    held = Held(longest_wait_s=0.1)
    held.send("first.json")
    wait_for(lambda: held.read)
    refused = post(Client(held.app), STEP, "/upload?name=second.json")
    assert refused.status_code == 503
    assert refused.text.startswith("second.json: waited ")
    assert held.end() == {"first.json": 201}
    held.go_on.release()
    assert post(Client(held.app), STEP).status_code == 201


def test_one_whose_reading_fails_gives_its_turn_to_the_next() -> None:
    page = served()
    assert post(page, b"no trace").status_code == 422
    assert post(page, STEP).status_code == 201


@pytest.mark.parametrize("limits", [{"kept": 2}, {"kept_bytes": int(2.5 * len(STEP))}])
def test_the_oldest_page_makes_room_and_says_that_it_is_gone(limits: dict[str, int]) -> None:
    page = served(LOCAL, **limits)
    paths = [post(page, STEP).headers["Location"] for _ in range(3)]
    assert [get(page, path).status_code for path in paths] == [410, 200, 200]
    assert "This page is gone" in get(page, paths[0]).text
    assert page.post(f"{paths[0]}_dash-update-component", json={}, base_url=BASE).status_code == 410
    assert get(page, "/").status_code == 200


def test_one_that_is_larger_than_all_that_is_kept_is_kept_alone() -> None:
    page = served(kept_bytes=1)
    paths = [post(page, STEP).headers["Location"] for _ in range(2)]
    assert [get(page, path).status_code for path in paths] == [410, 200]


def test_a_page_that_is_gone_takes_no_memory() -> None:
    reports: list[weakref.ref[Report]] = []

    def page_of(report: Report, path: str) -> flask.Flask:
        reports.append(weakref.ref(report))
        page: flask.Flask = build_app(open_bands(report), LOCAL, Watched(()), uploads, path).server
        return page

    uploads = Uploads(page_of, kept=1)
    page = Client(uploads.mounted_on(build_app(two_modes(), LOCAL, Watched(()), uploads).server))
    for _ in range(3):
        get(page, post(page, STEP).headers["Location"])
    gc.collect()
    assert [report() is None for report in reports] == [True, True, False]


def test_a_path_without_its_slash_leads_to_the_page() -> None:
    page = served()
    path = post(page, STEP).headers["Location"]
    answer = get(page, path.removesuffix("/"))
    assert (answer.status_code, answer.headers["Location"]) == (302, path)


def test_an_upload_from_another_site_is_refused() -> None:
    page = served()
    path = post(page, STEP).headers["Location"]
    for where in (f"/{NAME}", path + NAME):
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example:8050"}):
            assert post(page, STEP, where, headers=headers).status_code == 403


def test_uploads_and_their_pages_need_the_token_where_the_first_page_does() -> None:
    shared = "http://10.0.0.5:8050"
    page = served(SHARED)
    assert page.post(f"/{NAME}", data=STEP, base_url=shared).status_code == 403
    page.get("/?token=secret-token", base_url=shared)
    path = page.post(f"/{NAME}", data=STEP, base_url=shared).headers["Location"]
    assert page.get(path, base_url=shared).status_code == 200
    stranger = Client(page.application)
    for where in (path, f"{path}_dash-layout", f"{path}download/report.json", "/r/unknown/"):
        assert stranger.get(where, base_url=shared).status_code == 403
    answer = stranger.get(f"{path}?token=secret-token&step=1", base_url=shared)
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{path}?step=1")
    assert f"{COOKIE}-8050=secret-token" in answer.headers["Set-Cookie"]
    assert "Path=/;" in f"{answer.headers['Set-Cookie']};"


def test_a_page_alone_takes_no_files() -> None:
    page = Client(build_app(two_modes(), LOCAL, Watched(())).server)
    assert post(page, STEP).status_code == 405
    assert '"id":"upload"' not in get(page, "/_dash-layout").text


class _Endless(io.RawIOBase):
    """A body that never ends."""

    taken = largest = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self.taken += len(buffer)
        self.largest = max(self.largest, len(buffer))
        return len(buffer)
