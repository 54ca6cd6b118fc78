"""Pages of ranks: read when they are opened, a few kept, and a clear word where a file can't be read any more."""

from __future__ import annotations

import threading
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import flask
import msgspec
import pytest
from launchscope.analysis.many.document import RankRow, RanksDocument
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.report import Report
from launchscope.dashboard.many import app
from launchscope.dashboard.many.rank_pages import RankPages, report_of
from launchscope.dashboard.many.view import path_of, rows_in
from launchscope.dashboard.page.server import Access
from werkzeug.test import Client, TestResponse

from .rows_by_hand import write_traces

LOCAL = Access("127.0.0.1", 8050, None)


class Site:
    """The page of many ranks, whose ranks' pages are a line each."""

    def __init__(self, doc: RanksDocument, access: Access = LOCAL) -> None:
        self.read: list[list[int | None]] = []
        self.go = threading.Event()
        self.go.set()
        pages = RankPages(doc, self._report, self._page_of)
        self._client = Client(pages.mounted_on(app.build_app(doc, access, pages).server))

    def _report(self, rows: Sequence[RankRow]) -> Report:
        assert self.go.wait(10)
        self.read.append([row.rank for row in rows])
        return report_of(rows, cache=False)

    def _page_of(self, report: Report, path: str) -> flask.Flask:
        page = flask.Flask("rank")
        page.get("/")(lambda: f"page {path} of {', '.join(trace.name for trace in report.document.traces)}")
        return page

    def get(self, path: str, **headers: str) -> TestResponse:
        return self._client.get(path, base_url="http://127.0.0.1:8050", headers=headers)

    def opened(self, path: str) -> TestResponse:
        """The answer, once nothing is being read any more."""
        for _ in range(200):
            answer = self.get(path)
            if answer.status_code != 202:
                return answer
            time.sleep(0.05)
        raise AssertionError(f"{path} is never there")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(write_traces(tmp_path))


def test_a_file_is_read_when_its_page_is_opened(site: Site, tmp_path: Path) -> None:
    site.go.clear()
    waiting = site.get("/rows/3/")
    assert waiting.status_code == 202
    assert f"<li>{tmp_path}/rank3.json, 1.95 KiB</li>" in waiting.text
    assert 'http-equiv="refresh"' in waiting.text
    assert "rank 3 is being read first" in site.get("/rows/1/").text
    site.go.set()
    assert site.opened("/rows/3/?step=2").text == "page /rows/3/ of rank3.json"
    assert site.read == [[3]]


def test_a_file_that_became_a_zip_of_several_is_read_as_these(site: Site, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "two", "w") as archive:
        archive.write(tmp_path / "rank0.json", "a.json")
        archive.write(tmp_path / "rank1.json", "b.json")
    (tmp_path / "two").rename(tmp_path / "rank2.json")
    assert site.opened("/rows/2/").text == "page /rows/2/ of a.json, b.json"


def test_two_ranks_in_one_page(site: Site) -> None:
    assert site.opened("/rows/3-1/").text == "page /rows/3-1/ of rank3.json, rank1.json"


def test_the_last_two_are_kept_and_others_are_read_anew(site: Site) -> None:
    for row in (0, 1, 0, 2, 0, 1):
        site.opened(f"/rows/{row}/")
    assert site.read == [[0], [1], [2], [1]]
    assert site.get("/rows/2/_dash-layout").status_code == 410


def test_a_file_that_is_gone_says_so_and_can_be_tried_again(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "rank2.json"
    content = file.read_bytes()
    file.unlink()
    answer = site.opened("/rows/2/")
    assert answer.status_code == 422
    assert f"{file}: gone since it was read; put it back" in answer.text
    assert 'href="/">all ranks' in answer.text
    file.write_bytes(content)
    assert site.opened("/rows/2/").text == "page /rows/2/ of rank2.json"


def test_only_rows_of_the_table_can_be_opened_and_only_as_a_page(site: Site) -> None:
    for path in ("/rows/5/", "/rows/1-1/", "/rows/-1/", "/rows/1-2-3/", "/rows/../etc/"):
        assert site.get(path).status_code == 404, path
    assert site.get("/rows/1/", **{"Sec-Fetch-Dest": "image"}).status_code == 403
    link = {"Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}
    assert site.get("/rows/1/", **link).status_code == 403
    assert site.read == []


def test_a_page_needs_the_token_where_the_first_one_does(tmp_path: Path) -> None:
    site = Site(write_traces(tmp_path), Access("10.0.0.5", 8050, "secret-token"))
    assert site.get("/rows/1/").status_code == 403
    assert site.read == []


@pytest.mark.parametrize(
    ("name", "rows"),
    [("3", (3,)), ("3-1", (3, 1)), ("3-3", None), ("9", None), ("", None), ("3-", None), ("٣", None)],
)
def test_paths(name: str, rows: tuple[int, ...] | None) -> None:
    assert rows_in(name, 5) == rows
    if rows is not None:
        assert path_of(*rows) == f"/rows/{name}/"


def test_a_file_in_a_zip_and_one_behind_a_url_are_read_and_called_by_their_names(tmp_path: Path) -> None:
    doc = write_traces(tmp_path)
    archive = tmp_path / "run.zip"
    with zipfile.ZipFile(archive, "w") as written:
        written.write(doc.rows[0].path, "step/rank0.json")
    zipped = msgspec.structs.replace(doc.rows[0], path=f"{archive}/step/rank0.json")
    (trace,) = report_of([zipped], cache=False).document.traces
    assert (trace.source.path, trace.rank) == (f"{archive}/step/rank0.json", 0)
    here = msgspec.structs.replace(doc.rows[1], path=f"file://{doc.rows[1].path}")
    (trace,) = report_of([here], cache=False).document.traces
    assert (trace.name, trace.rank) == ("rank1.json", 1)
    with pytest.raises(UnreadableInput, match=r"run\.zip"):
        report_of([msgspec.structs.replace(zipped, path=f"{archive}/step/rank9.json")])
