"""Tables of limits: which one is about what, where they are found, and every mistake with what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from launchscope.analysis.compare.config import (
    Limits,
    checked_modes,
    find_config,
    limit_tables,
    limits_of_words,
    read_config,
)
from launchscope.analysis.model.errors import ConfigError

EVERYTHING = """
[limits]
blocking_calls = 0
launches = "+0"

[limits.graph]
launches = "<= 3"
step_time = "+3%"

[limits."llama_1b.py"]
launches = "<= 720"
kernels = "+28"

[limits."llama_1b.py".graph]
launches = 1

[noise]
gpu_paced = "2%"
host_paced = 0.5
"""


def written(folder: Path, text: str, name: str = "launchscope.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def told(limits: Limits, target: str, mode: str) -> dict[str, str]:
    return {limit.figure: limit.text for limit in limits.of(target, mode)}


def test_the_more_specific_table_wins_figure_by_figure(tmp_path: Path) -> None:
    limits = read_config(written(tmp_path, EVERYTHING))
    assert told(limits, "other.py", "eager") == {"launches": "+0", "blocking_calls": "0"}
    assert told(limits, "other.py", "graph") == {"launches": "<= 3", "blocking_calls": "0", "step_time": "+3%"}
    assert told(limits, "llama_1b.py", "fused") == {"launches": "<= 720", "kernels": "+28", "blocking_calls": "0"}
    assert told(limits, "llama_1b.py", "graph") == {
        "launches": "1", "kernels": "+28", "blocking_calls": "0", "step_time": "+3%",
    }  # fmt: skip
    assert (limits.gpu_paced, limits.host_paced) == (0.02, 0.5)
    assert limits.targets == ["llama_1b.py"]


def test_each_limit_knows_where_it_was_written(tmp_path: Path) -> None:
    limits = read_config(written(tmp_path, EVERYTHING))
    where = {limit.figure: limit.where for limit in limits.of("llama_1b.py", "graph")}
    assert where["launches"] == 'launchscope.toml [limits."llama_1b.py".graph]'
    assert where["step_time"] == "launchscope.toml [limits.graph]"


def test_figures_of_graphs_are_not_asked_of_modes_that_have_none_by_what_they_are() -> None:
    tables = {"graph_coverage": ">= 0.95", "graph_memory": "<= 64 MiB", "graph_launches": 1}
    limits = Limits(limit_tables(tables, "limits"))
    assert [told(limits, "t", mode) for mode in ("eager", "fused")] == [{}, {}]
    assert set(told(limits, "t", "graph")) == set(tables)
    assert set(told(limits, "t", "trace")) == {"graph_coverage", "graph_launches"}
    named = Limits(limit_tables({"eager": {"graph_coverage": ">= 0.1"}}, "limits"))
    assert told(named, "t", "eager") == {"graph_coverage": ">= 0.1"}


def test_pyproject_holds_the_same_tables(tmp_path: Path) -> None:
    text = "[tool.launchscope.limits.graph]\nlaunches = 1\n[tool.launchscope.noise]\ngpu_paced = 0\n"
    limits = read_config(written(tmp_path, text, "pyproject.toml"))
    (limit,) = limits.of("x", "graph")
    assert (limit.where, limits.gpu_paced) == ("pyproject.toml [tool.launchscope.limits.graph]", 0.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[limits]\nlaunhes = 1", "[limits]: no figure 'launhes' (did you mean 'launches'?); there are launches,"),
        ("[limits.graph]\nfoo = 1", "[limits.graph]: no figure 'foo'; there are"),
        ("[limits.graph]\nlaunches = 'x'", "[limits.graph]: launches = 'x' is no limit"),
        ("[limits.grpah]\nlaunches = 1", "[limits]: table 'grpah' is about no mode (did you mean 'graph'?), nor about"),
        ('[limits."m.py".grpah]\nlaunches = 1', '[limits."m.py"]: no mode \'grpah\' (did you mean \'graph\'?); they'),
        ("[limits.graph.eager]\nlaunches = 1", "[limits.graph]: 'eager' is a table in a table of a mode"),
        ("[limits]\ngraph = 1", "[limits]: graph is a mode, so a table: write [limits.graph]"),
        ("[limits.launches]\nx = 1", "[limits]: launches is a figure, no table: write launches = \"<= 300\", say"),
        ("[limits]\nlaunches = 2020-01-01", "is a date, no limit"),
        ("[limits]\nlaunches = nan", "is no number that can be a limit"),
        ("limits = 1", "limits is no table: write [limits]"),
        ("launches = 1", "launches stands outside of the table [limits]: write it below it"),
        ("[limit]\nlaunches = 1", "unknown key 'limit' (did you mean 'limits'?); there are limits and noise"),
        ("[noise]\ngpu = 1", "[noise]: unknown key 'gpu'"),
        ("[noise]\ngpu_paced = 'much'", "[noise]: gpu_paced = 'much' is no share: write gpu_paced = \"1%\", say"),
        ("[noise]\nhost_paced = true", "is no share"),
        ("[noise]\nhost_paced = -1", "is no share"),
        ("[noise]\nhost_paced = nan", "is no share"),
        ("[noise]\nhost_paced = 0x" + 5000 * "f", "is no share"),
        ("[limits\n", "no TOML: "),
        ("[limits]\nlaunches = 1" + 5000 * "0", "no TOML: "),
        ("[limits]\nlaunches = 1\nlaunches = 2", "no TOML: "),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_table_key_and_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        read_config(path)
    assert str(refused.value).startswith(str(path))
    assert said in str(refused.value)


def test_a_target_may_be_called_nearly_as_a_mode(tmp_path: Path) -> None:
    path = written(tmp_path, "[limits.graphs]\nlaunches = 1")
    assert told(read_config(path, ["graphs"]), "graphs", "eager") == {"launches": "1"}
    with pytest.raises(ConfigError, match="did you mean 'graph'"):
        read_config(path, ["other"])


def test_unreadable_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: no such file"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"[limits]\n# \xff")
    with pytest.raises(ConfigError, match="no TOML"):
        read_config(tmp_path / "latin.toml")
    with pytest.raises(ConfigError, match=r"without a table \[tool.launchscope\], so nothing is limited: add \[tool"):
        read_config(written(tmp_path, "[tool.ruff]\n", "pyproject.toml"))


@pytest.mark.parametrize("text", ["[[tool.launchscope]]\nlimits = {launches = 1}", "[tool]\nlaunchscope = 1"])
def test_limits_that_are_no_table_are_not_passed_over(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text, "pyproject.toml")
    for look in (lambda: find_config(tmp_path), lambda: read_config(path)):
        with pytest.raises(ConfigError, match=r"pyproject\.toml: tool\.launchscope is no table"):
            look()


def test_a_byte_order_mark_is_none_of_the_first_table(tmp_path: Path) -> None:
    (tmp_path / "launchscope.toml").write_bytes(b"\xef\xbb\xbf[limits]\r\nlaunches = 1\r\n")
    assert told(read_config(tmp_path / "launchscope.toml"), "x", "graph") == {"launches": "1"}


def test_the_nearest_file_up_to_the_repositorys_root_is_found(tmp_path: Path) -> None:
    outside = written(tmp_path, "[limits]\n")
    root = tmp_path / "repo"
    deep = root / "a" / "b"
    deep.mkdir(parents=True)
    (root / ".git").mkdir()
    assert find_config(deep) is None  # what lies above the repository is none of its
    project = written(root, "[tool.launchscope.limits]\n", "pyproject.toml")
    assert find_config(deep) == project
    own = written(root, "[limits]\n")
    assert find_config(deep) == own  # before pyproject.toml
    written(deep.parent, "[tool.other]\n", "pyproject.toml")
    assert find_config(deep) == own
    nearest = written(deep, "[limits]\n")
    assert find_config(deep) == nearest
    assert find_config(tmp_path) == outside


def test_a_current_folder_that_was_deleted_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert find_config(Path()) is None


def test_outside_of_a_repository_only_the_folder_itself_counts(tmp_path: Path) -> None:
    written(tmp_path, "[limits]\n")
    (tmp_path / "a").mkdir()
    assert find_config(tmp_path / "a") is None


@pytest.mark.parametrize(
    ("modes", "named"),
    [
        (None, None),
        ("graph", ("graph",)),
        ("graph, fused", ("graph", "fused")),
        (["eager", "graph"], ("eager", "graph")),
    ],
)
def test_limits_as_keywords(modes: Any, named: tuple[str, ...] | None) -> None:
    words = {"launches": "<= 300", "blocking_calls": 0} | ({} if modes is None else {"modes": modes})
    limits, chosen = limits_of_words(words, "test_step.py::test_step")
    assert told(limits, "any", "graph") == {"launches": "<= 300", "blocking_calls": "0"}
    assert chosen == named
    assert {limit.where for limit in limits.of("any", "graph")} == {"test_step.py::test_step"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"launch": 1}, "test_x: no figure 'launch' (did you mean 'launches'?)"),
        ({"launches": "x"}, "test_x: launches = 'x' is no limit"),
        ({"modes": "grpah"}, "test_x: no mode 'grpah' (did you mean 'graph'?)"),
        ({"modes": 3}, "test_x: modes takes names of modes"),
        ({"modes": ()}, "test_x: names no mode; they are eager, graph,"),
        ({"modes": " , "}, "test_x: names no mode"),
        ({"graph": {"launches": 1}}, "test_x: "),
    ],
)
def test_wrong_keywords(words: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        limits_of_words(words, "test_x")
    assert said in str(refused.value)


def test_modes_are_named_once_each() -> None:
    assert checked_modes(("graph,eager", "graph"), "--mode") == ("graph", "eager")
