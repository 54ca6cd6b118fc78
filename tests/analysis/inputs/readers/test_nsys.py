"""Nsight Systems exports: what is read of every generation of the schema, and that no file makes the reader fail."""

from __future__ import annotations

import contextlib
import gzip
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from launchscope.analysis.facts.context import Context
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.inputs.readers import open_trace, read_trace, sqlite_file
from launchscope.analysis.inputs.readers.sqlite_file import open_bytes
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.trace import NONE, HostKind, Ints, OpKind, Trace

from ....nsys_builder import ExportBuilder, export

CLOVERLEAF = Path(__file__).parents[4] / "fixtures" / "traces" / "pipit_cloverleaf_nsys.sqlite"
YEARS = (2020, 2022, 2025)


def steps(year: int = 2025) -> ExportBuilder:
    """Three steps of two kernels and a copy, 100 µs apart: per step busy 12, and a wait of 10 at its end."""
    builder = export(year)
    for step in range(3):
        at = 100 * step
        builder.range(f"step {step}", at, 90, by_id=step == 1)
        builder.launch(at + 5, 5).kernel(at + 20, 4, name="gemm").launch(at + 25, 5).kernel(at + 40, 4, name="norm")
        builder.launch(at + 45, 5, "cudaMemcpyAsync_v3020").memcpy(at + 60, 4, kind=2, ends=(2, 1))
        builder.launch(at + 55, 10, "cudaStreamSynchronize_v3020")
    return builder


def names(trace: Trace, column: Ints) -> list[str]:
    return [trace.name(int(index)) for index in column]


def codes(trace: Trace) -> dict[str, int]:
    return {notice.code: notice.count for notice in trace.notices}


def altered(builder: ExportBuilder, *statements: str) -> bytes:
    """The export after someone changed it."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(builder.bytes())
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    return connection.serialize()


class TestEveryYear:
    @pytest.mark.parametrize("year", YEARS)
    def test_launches_ops_and_steps(self, year: int) -> None:
        found = steps(year).build()
        assert found.events == 3 * (4 + 3 + 1)  # calls, GPU ops, range
        assert found.gpu_ops.start_ns.tolist() == [1000 * (100 * s + k) for s in range(3) for k in (20, 40, 60)]
        assert found.gpu_ops.dur_ns.tolist() == [4000] * 9
        assert names(found, found.gpu_ops.name[:2]) == ["gemm(int)", "norm(int)"]
        assert names(found, found.launches.api[:3]) == ["cudaLaunchKernel", "cudaLaunchKernel", "cudaMemcpyAsync"]
        assert found.gpu_ops.launch_row.tolist() == list(range(9))
        assert (found.launches.dur_ns.tolist(), found.launches.is_graph.any()) == ([5000] * 9, False)
        assert names(found, found.blocking_calls.api) == ["cudaStreamSynchronize"] * 3
        assert (found.notices, found.complete, found.source.format) == ((), True, "nsys-sqlite")
        found_steps = Context(found).steps
        assert (found_steps.source, found_steps.names) == ("annotation", ("step 0", "step 1", "step 2"))
        assert found_steps.op_step.tolist() == [0] * 3 + [1] * 3 + [2] * 3

    @pytest.mark.parametrize("year", YEARS)
    def test_figures_that_add_up(self, year: int) -> None:
        document = analyze_trace(steps(year).build(), name="x").document
        device = document.devices[0]
        assert (device.window_ns, device.busy_ns, device.idle_ns) == (244_000, 36_000, 208_000)
        assert (document.coverage.linked, document.coverage.unlinked) == (9, 0)

    @pytest.mark.parametrize(
        ("year", "copied"), [(2020, ""), (2022, " (Device -> Pinned)"), (2025, " (Device -> Pinned)")]
    )
    def test_copies_and_sets(self, year: int, copied: str) -> None:
        found = steps(year).launch(400, 5, "cudaMemsetAsync_v3020").memset(410, 1).build()
        assert names(found, found.gpu_ops.name[[2, 9]]) == [
            "Memcpy DtoH" + copied,
            "Memset (Device)" if copied else "Memset",
        ]
        assert found.gpu_ops.kind[[0, 2, 9]].tolist() == [OpKind.KERNEL, OpKind.MEMCPY, OpKind.MEMSET]
        assert found.gpu_ops.bytes[[0, 2, 9]].tolist() == [NONE, 1024, 4]

    @pytest.mark.parametrize(("year", "name"), [(2020, None), (2022, "Test GPU"), (2025, "Test GPU")])
    def test_device_names(self, year: int, name: str | None) -> None:
        assert steps(year).build().device_names == {0: name}

    def test_recorded_with_2022_and_exported_with_2024(self) -> None:
        """CloverLeaf on an A100: the figures of an independent program with exact arithmetic."""
        found = open_trace(CLOVERLEAF)
        document = analyze_trace(found, name="x").document
        coverage, device = document.coverage, document.devices[0]
        assert (coverage.gpu_ops, coverage.kernels, coverage.launches, coverage.linked) == (1591, 1312, 1591, 1591)
        assert (coverage.negative_latency, coverage.zero_duration, coverage.events) == (0, 0, 3048 + 1591)
        assert (device.window_ns, device.busy_ns) == (342_407_810, 303_795_463)
        assert (device.op_sum_ns, device.name) == (303_795_463, "NVIDIA A100-SXM4-80GB")
        assert document.launches.by_api == {"cudaLaunchKernel": 1312, "cudaMemcpy": 279}
        assert len(found.blocking_calls) == 1312 + 279  # cudaDeviceSynchronize, cudaMemcpy
        assert found.gpu_ops.start_ns.min() > 1_696_392_839_587_175_550  # the session's start, ns since 1970


class TestJoin:
    def test_colliding_correlation_ids_of_two_processes(self) -> None:
        builder = export()
        for process, device, late in ((100, 0, 0), (101, 1, 7)):
            for index in (1, 2, 3):
                at = 100 * index + late
                builder.launch(at, 5, process=process, correlation=index).kernel(at + 10, 4, deviceId=device)
        found = builder.build()
        assert found.gpu_ops.process.tolist() == [100, 101] * 3
        latency = found.gpu_ops.start_ns - found.launches.start_ns[found.gpu_ops.launch_row]
        assert (len(found.launches), latency.tolist()) == (6, [10_000] * 6)
        assert found.devices == (0, 1)

    def test_one_pid_on_two_machines(self) -> None:
        builder = export()
        for machine in (1, 2):
            builder.launch(100 * machine, 5, correlation=1).kernel(100 * machine + 10, 4)
        data = altered(
            builder,
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = globalPid + (2 << 48) WHERE start > 150000",
            "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = globalTid + (2 << 48) WHERE start > 150000",
        )
        assert len(set(read_trace(data, "x").gpu_ops.process.tolist())) == 2

    def test_two_processes_that_mean_different_gpus_by_one_id(self) -> None:
        builder = export(device_names={2: "A", 5: "B"})
        for process, gpu in ((100, 2), (101, 5)):
            builder.row("TARGET_INFO_CUDA_DEVICE", pid=process, cudaId=0, gpuId=gpu)
            builder.launch(process, 5, process=process).kernel(process + 10, 4)
        assert builder.build().device_names == {2: "A", 5: "B"}

    def test_device_ids_stay_where_they_are_clear(self) -> None:
        builder = export(device_names={2: "A"}).row("TARGET_INFO_CUDA_DEVICE", pid=100, cudaId=0, gpuId=2)
        assert builder.launch(0, 5).kernel(10, 4).build().device_names == {0: "A"}

    def test_the_earliest_call_with_the_correlation_id(self) -> None:
        builder = export().launch(2, 2, "cuLaunchKernel", correlation=1, table="DRIVER")
        found = builder.launch(1, 5, correlation=1).kernel(9, 1).build()
        assert names(found, found.launches.api) == ["cudaLaunchKernel"]
        assert names(found, found.host_ops.name) == ["cuLaunchKernel"]

    def test_no_correlation_id_is_no_link(self) -> None:
        builder = export().launch(0, 5, correlation=0).kernel(10, 4).memcpy(20, 4, kind=11, correlationId=None)
        found = builder.build()
        assert found.gpu_ops.launch_row.tolist() == [NONE, NONE]
        assert names(found, found.gpu_ops.name) == ["kernel(int)", "Memcpy HtoD (unified memory)"]

    def test_ops_whose_process_the_file_does_not_name(self) -> None:
        found = export().launch(0, 5).kernel(10, 4, globalPid=None).launch(20, 5).kernel(30, 4).build()
        assert (found.gpu_ops.process.tolist(), found.gpu_ops.launch_row.tolist()) == ([100, 100], [0, 1])

    def test_a_blocking_copy_is_a_launch_too(self) -> None:
        found = export().launch(0, 20, "cudaMemcpy_v3020").memcpy(5, 10).build()
        assert (len(found.launches), len(found.blocking_calls), len(found.host_ops)) == (1, 1, 0)


class TestGraphs:
    def replays(self, year: int) -> ExportBuilder:
        builder = export(year)
        for replay in range(3):
            at = 100 * replay
            builder.graph_launch(at, 8)
            for node in (1, 2):
                builder.kernel(at + 10 * node, 4, name=f"node_{node}", graphNodeId=6 << 32 | node, graphId=6)
        return builder

    @pytest.mark.parametrize(
        ("year", "graph", "node"), [(2020, NONE, NONE), (2022, 6, 6 << 32 | 1), (2025, 6, 6 << 32 | 1)]
    )
    def test_nodes(self, year: int, graph: int, node: int) -> None:
        found = self.replays(year).build()
        assert (found.gpu_ops.graph[0], found.gpu_ops.graph_node[0]) == (graph, node)
        assert found.launches.is_graph.tolist() == [True] * 3
        document = analyze_trace(found, name="x").document
        assert (document.coverage.kernels_in_graphs, document.coverage.reliable) == (6, True)
        assert [(replay.count, replay.ops_min) for replay in document.graphs.replays] == [(3, 2)]

    def test_each_process_counts_its_graphs(self) -> None:
        builder = self.replays(2025).launch(400, 8, "cudaGraphLaunch_v10000", process=101)
        found = builder.kernel(410, 4, graphId=6, graphNodeId=6 << 32 | 1).build()
        document = analyze_trace(found, name="x").document
        assert [(replay.count, replay.ops_max) for replay in document.graphs.replays] == [(3, 2), (1, 1)]
        assert [warning.code for warning in document.warnings if warning.code == "under_recorded"] == []

    def test_a_replay_recorded_as_a_whole_is_one_op(self) -> None:
        builder = steps(2022)
        for at in (400, 500):
            builder.graph_launch(at, 5).graph_trace(at + 10, 80)
        found = builder.build()
        assert (codes(found), found.complete, len(found.gpu_ops)) == ({}, True, 11)
        assert (found.gpu_ops.dur_ns[found.whole_replays].tolist(), found.launches.is_graph.sum()) == ([80_000] * 2, 2)
        document = analyze_trace(found, name="x").document
        assert (document.coverage.gpu_ops, document.coverage.kernels, document.coverage.reliable) == (11, 6, True)
        assert document.graphs.coverage_by_count is None
        assert document.withheld["graphs.coverage_by_count"] == "graph replays were recorded as a whole"

    def test_what_is_known_of_whole_replays(self) -> None:
        """Replays of 60 µs every 100 µs: the GPU works at most 60 of them, and no class follows from that."""
        builder = export()
        for step in range(4):
            builder.range(f"step {step}", 100 * step, 90).graph_launch(100 * step, 5).graph_trace(100 * step + 10, 60)
        document = analyze_trace(builder.build(), name="x").document
        assert document.steps is not None
        assert document.steps.period_ns is not None
        assert (document.steps.period_ns.median, document.steps.kernels.total) == (100_000, 0)
        assert document.verdict.verdict_class == "insufficient"
        assert "works at most 60.0 µs of a 100 µs step (60 %)" in document.verdict.reason
        assert [warning.code for warning in document.warnings] == ["graph_level"]

    def test_a_graph_level_row_beside_its_nodes_is_no_loss(self) -> None:
        found = export().graph_launch(0, 5).graph_trace(10, 9).kernel(10, 4).kernel(15, 4).build()
        assert (codes(found), found.complete, found.events, len(found.gpu_ops)) == ({}, True, 4, 2)


class TestRanges:
    def test_kinds(self) -> None:
        """Push/pop and start/end ranges, of programs and of .nvtxt files; no marks, and none that was not closed."""
        builder = export().launch(0, 1).kernel(2, 1)
        for kind in (33, 34, 59, 60, 70, 71, 75):
            builder.range(f"kind {kind}", kind, 5, kind=kind)
        found = builder.range("open", 90, None).range("mark", 95, None, kind=34).build()
        assert names(found, found.host_ops.name) == ["kind 59", "kind 60", "kind 70", "kind 71"]
        assert set(found.host_ops.kind.tolist()) == {HostKind.ANNOTATION}
        assert found.events == 2 + 7 + 2

    def test_domains_stand_before_the_text(self) -> None:
        builder = export().launch(0, 1).kernel(2, 1).range("NCCL", 0, None, kind=75, domain=3)
        builder.range("other", 0, None, kind=75, domain=3, process=101)
        builder.range("a", 1, 1, domain=3).range("b", 3, 1, by_id=True, domain=3, process=101).range(
            "c", 5, 1, domain=4
        )
        found = builder.build()
        assert names(found, found.host_ops.name) == ["NCCL:a", "other:b", "c"]

    def test_threads_and_nesting(self) -> None:
        builder = export().launch(0, 1).kernel(2, 1).range("inner", 10, 5).range("outer", 10, 20, thread=9)
        found = builder.build()
        assert names(found, found.host_ops.name) == ["outer", "inner"]
        assert (found.host_ops.thread.tolist(), found.host_ops.process.tolist()) == ([9, 1], [100, 100])

    def test_a_range_without_text(self) -> None:
        found = export().launch(0, 1).kernel(2, 1).row("NVTX_EVENTS", start=1, end=2, eventType=59, textId=77).build()
        assert names(found, found.host_ops.name) == ["?"]


class TestOddFiles:
    def test_missing_tables_and_columns_are_normal(self) -> None:
        found = steps().drop("StringIds").drop("NVTX_EVENTS").drop("TARGET_INFO_GPU").build()
        assert (set(names(found, found.gpu_ops.name[:2])), found.device_names) == ({"unnamed kernel"}, {0: None})
        assert (len(found.launches), len(found.host_ops)) == (9, 3)  # a call without a name blocks nothing
        found = export().launch(0, 1).kernel(5, 1).drop("CUPTI_ACTIVITY_KIND_RUNTIME").build()
        assert (len(found.launches), found.gpu_ops.launch_row.tolist()) == (0, [NONE])
        bare = (
            f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN {c} TO x_{c}"
            for c in ("deviceId", "streamId", "globalPid")
        )
        found = read_trace(altered(export().launch(0, 1).kernel(5, 1), *bare), "x")
        assert (found.devices, found.gpu_ops.stream.tolist(), found.gpu_ops.launch_row.tolist()) == ((0,), [NONE], [0])

    def test_numbers_of_the_wrong_type(self) -> None:
        data = altered(
            steps(),
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 'x', streamId = 7.0, bytes = -5 WHERE rowid = 1".replace(
                ", bytes = -5", ""
            ),
            "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 1 << 50, copyKind = -3, srcKind = x'00'",
            "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = NULL WHERE rowid = 1",
            "UPDATE NVTX_EVENTS SET text = x'ff', textId = 1 WHERE rowid = 1",
        )
        found = read_trace(data, "x")
        assert (found.devices, found.gpu_ops.stream[0], found.gpu_ops.bytes[2]) == ((0,), 7, NONE)
        assert names(found, found.gpu_ops.name[[2]]) == ["Memcpy"]

    @pytest.mark.parametrize("end", ["NULL", "'soon'", str(2**63 - 1), str(-(2**63)), "x'00'"])
    def test_records_without_time_are_told(self, end: str) -> None:
        for table in ("KERNEL", "RUNTIME"):
            data = altered(steps(), f"UPDATE CUPTI_ACTIVITY_KIND_{table} SET end = {end} WHERE rowid = 1")
            found = read_trace(data, "x")
            assert (codes(found), found.complete) == ({"unreadable_times": 1}, False)

    def test_durations_whose_sum_64_bits_cannot_hold(self) -> None:
        data = altered(steps(), f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = {2**61} WHERE rowid < 4")
        assert codes(read_trace(data, "x")) == {"unreadable_times": 3}

    def test_what_nsys_says_of_lost_events(self) -> None:
        builder = steps().row("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might have been collected.")
        found = builder.row(
            "DIAGNOSTIC_EVENT", severity=2, text="Not all NVTX events might have been collected."
        ).build()
        assert (codes(found), found.complete) == ({"lost_records": 1}, True)

    def test_compressed_and_in_bytes(self, tmp_path: Path) -> None:
        data = steps().bytes()
        path = tmp_path / "a b?#%.json"
        for content in (data, gzip.compress(data)):
            path.write_bytes(content)
            assert (len(open_trace(path).gpu_ops), open_trace(path).source.bytes) == (9, len(content))
        assert len(read_trace(data, "x").gpu_ops) == 9

    def test_a_write_ahead_log_beside_the_file(self, tmp_path: Path) -> None:
        path = steps().write(tmp_path / "live.sqlite")
        writer = sqlite3.connect(path)
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY")
        writer.commit()
        assert len(open_trace(path).gpu_ops) == 6  # as of the log, which the file itself does not show
        writer.close()
        before = sorted(tmp_path.iterdir())
        assert len(open_trace(path).gpu_ops) == len(read_trace(path.read_bytes(), "x").gpu_ops) == 6
        assert sorted(tmp_path.iterdir()) == before  # reading leaves nothing behind


def hostile(name: str) -> bytes:
    """Files that try to make the reader run, read or wait for what it should not."""
    kernel = "CUPTI_ACTIVITY_KIND_KERNEL"
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end FROM n"
    statements = {
        "view": [f"DROP TABLE {kernel}", f"CREATE VIEW {kernel} AS {endless}"],
        "view under another name": [
            f"DROP TABLE {kernel}",
            f"CREATE VIEW {kernel} AS {endless}",
            "PRAGMA writable_schema=ON",
            f"UPDATE sqlite_master SET type = 'table', rootpage = 2, sql = 'CREATE TABLE x(start, end)' "
            f"WHERE name = '{kernel}'",
            f"INSERT INTO sqlite_master VALUES('table', 'y', 'y', 3, 'CREATE VIEW {kernel} AS {endless}')",
        ],
        "virtual table": [f"DROP TABLE {kernel}", f"CREATE VIRTUAL TABLE {kernel} USING fts5(start, end)"],
        "generated column": [
            f"DROP TABLE {kernel}",
            f"CREATE TABLE {kernel}(x, start AS (abs(x)), end AS (abs(x)))",
            f"INSERT INTO {kernel}(x) VALUES(1)",
        ],
        "trigger": [f"CREATE TRIGGER t AFTER INSERT ON {kernel} BEGIN SELECT load_extension('/tmp/x'); END"],
        "index on an expression": [f"CREATE INDEX i ON {kernel}(abs(start))"],
    }[name]
    connection = sqlite3.connect(":memory:")
    connection.deserialize(steps().bytes())
    for statement in statements:
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            if "no such module" in str(error):
                pytest.skip("this SQLite has no fts5")
            raise
    connection.commit()
    return connection.serialize()


def interior_page(child: int) -> bytes:
    """A page of a table's tree, of 1,024 bytes, all of whose children are this page."""
    cell = child.to_bytes(4) + b"\1"
    offset = 1024 - len(cell)
    count = 160  # SQLite allows 169
    head = b"\5\0\0" + count.to_bytes(2) + offset.to_bytes(2) + b"\0" + child.to_bytes(4)
    return (head + offset.to_bytes(2) * count).ljust(offset, b"\0") + cell


@pytest.mark.parametrize(
    "table", ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds"]
)
def test_a_table_may_bear_a_version(table: str) -> None:
    """The latest one is read where it has no plain name."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(steps().bytes())
    connection.execute(f"ALTER TABLE {table} RENAME TO {table}_V3")
    connection.execute(f"CREATE TABLE {table}_V2 (start, end)")
    connection.commit()
    found, plain = read_trace(connection.serialize(), "x"), steps().build()
    for name in ("gpu_ops", "launches", "host_ops"):
        assert len(getattr(found, name)) == len(getattr(plain, name)) > 0
    assert set(found.names) == set(plain.names)


PIPIT = CLOVERLEAF.read_bytes()
PAGE = 4096


class TestDamage:
    @pytest.mark.parametrize("lost", [1, 100, 3896, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE, 200_000, len(PIPIT) - 100])
    @pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
    def test_a_file_cut_anywhere_is_refused(self, lost: int, packed: bool, tmp_path: Path) -> None:
        """SQLite reads zeros where part of a page is cut: 30 kernels of one name were there instead of four."""
        data = gzip.compress(PIPIT[:-lost], 1) if packed else PIPIT[:-lost]
        (tmp_path / "x.sqlite").write_bytes(data)
        opened: list[Callable[[], Trace]] = [
            lambda: open_trace(tmp_path / "x.sqlite"),
            lambda: read_trace(data, "x.sqlite"),
        ]
        for read in opened:
            with pytest.raises(
                UnreadableInput, match=rf"x.sqlite: .* cut: {len(PIPIT) - lost:,} of {len(PIPIT):,} bytes"
            ):
                read()

    @pytest.mark.parametrize("suffix", ["-wal", "-journal"])
    def test_a_log_beside_it_makes_no_cut_file_whole(self, suffix: str, tmp_path: Path) -> None:
        """Zeros there are a log that SQLite passes over, and then it reads the file as it is."""
        path = tmp_path / "x.sqlite"
        path.with_name(path.name + suffix).write_bytes(bytes(512))
        path.write_bytes(PIPIT)
        assert len(open_trace(path).gpu_ops) == 1591
        path.write_bytes(PIPIT[:-100])
        with pytest.raises(UnreadableInput, match=r"x.sqlite: .* cut"):
            open_trace(path)

    def test_what_a_log_holds_is_read_and_nothing_is_left_beside_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A program broke off with a kernel that only its log has."""
        (tmp_path / "written").mkdir()
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        path = export().launch(0, 5).kernel(9, 1).launch(20, 5).kernel(29, 1).write(tmp_path / "written" / "x.sqlite")
        folder = tmp_path / "broken off"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("PRAGMA journal_mode=WAL")
            writer.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start = (SELECT MAX(start) FROM "
                           "CUPTI_ACTIVITY_KIND_KERNEL)")  # fmt: skip
            folder.mkdir()
            for name in ("x.sqlite", "x.sqlite-wal"):
                shutil.copyfile(path.with_name(name), folder / name)
        kept = {each.name: each.read_bytes() for each in folder.iterdir()}
        assert len(open_trace(folder / "x.sqlite").gpu_ops) == 1
        assert {each.name: each.read_bytes() for each in folder.iterdir()} == kept
        assert not list((tmp_path / "temporary").iterdir())

    def test_a_log_that_never_ends_or_is_too_large_is_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, log = steps().write(tmp_path / "x.sqlite"), tmp_path / "x.sqlite-wal"
        log.symlink_to("/dev/zero")
        with pytest.raises(UnreadableInput, match=r"x.sqlite-wal beside it is of a program that writes"):
            open_trace(path)
        log.unlink()
        log.write_bytes(bytes(512))
        monkeypatch.setattr(sqlite_file, "_MOST_COPIED", path.stat().st_size)
        with pytest.raises(UnreadableInput, match=r"x.sqlite-wal beside it is of a program that writes"):
            open_trace(path)

    def test_a_file_whose_writer_keeps_no_count_of_pages(self) -> None:
        """The header's count holds where two counters agree; else whole pages are all that is known."""
        uncounted = bytearray(steps().bytes())
        uncounted[92:96] = b"\0\0\0\7"
        assert len(read_trace(bytes(uncounted), "x").gpu_ops) == 9
        with pytest.raises(UnreadableInput, match="not so many whole pages of 1,024"):
            read_trace(bytes(uncounted[:-1]), "x")

    @pytest.mark.parametrize("most", [1 << 30, 0], ids=["checked whole", "too large for that"])
    @pytest.mark.parametrize("table", ["KERNEL", "RUNTIME"])
    def test_half_a_page_of_zeros_is_told(self, most: int, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A disk writes 512 bytes at a time."""
        monkeypatch.setattr(sqlite_file, "_MOST_CHECKED", most)
        data = bytearray(steps().bytes())
        with open_bytes(bytes(data), "x") as database:
            sql = f"SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_{table}'"
            end = 1024 * database.connection.execute(sql).fetchone()[0]
        data[end - 512 : end] = bytes(512)
        with pytest.raises(
            UnreadableInput, match=r"x: a damaged SQLite file: its (pages|table .*) can't be as SQLite wrote"
        ):
            read_trace(bytes(data), "x")

    @pytest.mark.parametrize("name", ["gemm(int)", "cudaLaunchKernel_v7000", "all reduce"])
    def test_a_name_that_is_referred_to_and_absent(self, name: str) -> None:
        builder = (
            export()
            .launch(0, 1, "cudaLaunchKernel_v7000")
            .kernel(2, 1, name="gemm")
            .range("all reduce", 5, 1, by_id=True)
        )
        assert builder.build().complete
        found = read_trace(altered(builder, f"DELETE FROM StringIds WHERE value = '{name}'"), "x")
        assert (codes(found), found.complete) == ({"damaged_file": 1}, False)

    def test_a_name_of_which_a_disk_lost_a_part(self) -> None:
        data = export().launch(0, 1).kernel(2, 1, name="k" * 600).bytes()
        at = data.index(b"k" * 600)
        found = read_trace(data[:at] + bytes(512) + data[at + 512 :], "x")
        assert (codes(found), found.complete) == ({"damaged_file": 1}, False)


class TestRefusals:
    @pytest.mark.parametrize(
        ("builder", "words"),
        [
            (export().range("a", 0, 1, by_id=True), "without CUDA activities.*--trace=cuda"),
            (export().row("TARGET_INFO_GPU", id=1), "not an export of Nsight Systems"),
        ],
        ids=["no cuda", "no activities"],
    )
    def test_what_the_file_lacks(self, builder: ExportBuilder, words: str) -> None:
        with pytest.raises(UnreadableInput, match=f"x.sqlite: .*{words}"):
            read_trace(builder.bytes(), "x.sqlite")

    @pytest.mark.parametrize(
        ("statement", "words"),
        [
            ("CREATE TABLE rocpd_op(id)", "ROCm rpd.*rpd2tracing"),
            ("CREATE TABLE StringTable(id)", "nvprof"),
            ("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN end TO x", "no column end"),
        ],
    )
    def test_files_of_others(self, statement: str, words: str) -> None:
        with pytest.raises(UnreadableInput, match=f"x.sqlite: .*{words}"):
            read_trace(altered(steps(), statement), "x.sqlite")

    @pytest.mark.parametrize("cut", [16, 17, 19, 99, 100, 1024, 4000])
    def test_cut_files(self, cut: int, tmp_path: Path) -> None:
        data = steps().bytes()[:cut]
        (tmp_path / "x.sqlite").write_bytes(data)
        with pytest.raises(UnreadableInput, match=r"x.sqlite: .*SQLite file"):
            read_trace(data, "x.sqlite")
        with pytest.raises(UnreadableInput, match=r"x.sqlite: .*SQLite file"):
            open_trace(tmp_path / "x.sqlite")

    @pytest.mark.parametrize(
        ("name", "words"),
        [("view", None), ("view under another name", "SQLite file"), ("virtual table", "virtual tables"),
         ("generated column", "computed columns"), ("trigger", None), ("index on an expression", None)],
    )  # fmt: skip
    def test_hostile_files(self, name: str, words: str | None) -> None:
        data = hostile(name)
        if words is None:
            assert len(read_trace(data, "x.sqlite").gpu_ops) == (3 if name == "view" else 9)
        else:
            with pytest.raises(UnreadableInput, match=f"x.sqlite: .*{words}"):
                read_trace(data, "x.sqlite")

    def test_a_tree_that_names_one_page_many_times(self) -> None:
        """Two interior pages of 160 times the same child: 25,600 leaves in a file of 50 kB."""
        builder = export().launch(0, 1)
        for index in range(400):
            builder.kernel(index, 1)
        data = bytearray(builder.bytes())
        with open_bytes(bytes(data), "x") as database:
            sql = "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
            root = database.connection.execute(sql).fetchone()[0]
        at = 1024 * (root - 1)
        leaf = int.from_bytes(data[at + 8 : at + 12])  # the rightmost child
        data[at : at + 1024] = interior_page(len(data) // 1024 + 1)
        data += interior_page(leaf)
        data[28:32] = (len(data) // 1024).to_bytes(4)
        with pytest.raises(UnreadableInput, match=r"x: a damaged SQLite file: its pages can't be as SQLite wrote them"):
            read_trace(bytes(data), "x")

    def test_a_text_of_a_mb_that_every_row_has_without_holding_it(self) -> None:
        """The value that a column was added with stands in the schema alone."""
        data = altered(
            steps(),
            "ALTER TABLE StringIds RENAME COLUMN value TO old",
            f"ALTER TABLE StringIds ADD COLUMN value TEXT DEFAULT '{'k' * 10**6}'",
        )
        with pytest.raises(UnreadableInput, match=r"x: .*StringIds holds more than the file's size allows"):
            read_trace(data, "x")

    def test_time_runs_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        builder = export().launch(0, 1)
        for index in range(20_000):
            builder.kernel(index, 1)
        data = builder.bytes()
        monkeypatch.setattr("launchscope.analysis.inputs.readers.sqlite_file._SECONDS", -1e9)
        with pytest.raises(UnreadableInput, match="far longer"):
            read_trace(data, "x")


def flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 4, 32))):
        data[chance.randrange(16, len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(17, len(data)) :]


def swap_pages(data: bytearray, chance: random.Random) -> None:
    one, other = (1024 * chance.randrange(1, len(data) // 1024) for _ in range(2))
    data[one : one + 1024], data[other : other + 1024] = data[other : other + 1024], data[one : one + 1024]


@pytest.mark.parametrize("damage", [flip, cut, swap_pages])
def test_any_damage_gives_a_trace_or_a_refusal(damage: Callable[[bytearray, random.Random], None]) -> None:
    whole = steps(2025).bytes()
    chance = random.Random(damage.__name__)
    began, refusals = time.monotonic(), []
    for _ in range(150):
        data = bytearray(whole)
        damage(data, chance)
        try:
            found = read_trace(bytes(data), "x.sqlite")
        except UnreadableInput as error:
            refusals.append(str(error))
        else:
            assert (found.gpu_ops.launch_row < len(found.launches)).all()
            assert (found.gpu_ops.name < len(found.names)).all()
    assert all(refusal.startswith("x.sqlite: ") and refusal.isprintable() for refusal in refusals)
    assert time.monotonic() - began < 60
