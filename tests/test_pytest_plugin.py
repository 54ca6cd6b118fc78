"""The pytest plugin, each time in a pytest of its own: what passes, fails, is skipped or refused, and what it loads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import launchscope
import pytest
from launchscope.fixtures.builder import trace
from launchscope.tracer.processes import api  # noqa: F401  # loaded before a pytest inside this one takes it for its own

pytest_plugins = ["pytester"]

CAPTURES = Path(launchscope.__file__).parent / "fixtures" / "captures"
LIVE = CAPTURES / "live.zip"

NO_GPU = """
    import pytest
    import launchscope.tracer.processes.api
    from launchscope.analysis.model.errors import MissingRequirement

    def profile(target, **options):
        raise MissingRequirement("no GPU driver found on this machine")

    @pytest.fixture(autouse=True)
    def machine(monkeypatch):
        monkeypatch.setattr(launchscope.tracer.processes.api, "profile", profile)
"""

A_GPU = f"""
    import pytest
    import launchscope.tracer.processes.api

    @pytest.fixture(autouse=True)
    def calls(monkeypatch):
        "What is measured is a capture that was recorded before, whatever is asked for."
        calls = []

        def profile(target, **options):
            calls.append((target, options))
            return {str(LIVE)!r}

        monkeypatch.setattr(launchscope.tracer.processes.api, "profile", profile)
        return calls
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a test file in a pytest of its own, with strict markers and warnings as errors."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    options = "--strict-markers -p no:dash -p no:hypothesispytest -p no:cacheprovider"
    rewriting = "ignore:Module already imported so cannot be rewritten"  # as in pyproject.toml
    pytester.makeini(f"[pytest]\naddopts = {options}\nfilterwarnings =\n    error\n    {rewriting}\n")

    def run(test: str, *options: str, conftest: str = "", process: bool = False) -> pytest.RunResult:
        pytester.makeconftest(conftest)
        pytester.makepyfile(test)
        return (pytester.runpytest_subprocess if process else pytester.runpytest_inprocess)(*options)

    return run


@pytest.fixture
def step(pytester: pytest.Pytester) -> Path:
    """A trace of five steps with two kernels and a wait each."""
    building = trace()
    for number in range(5):
        at = number * 100
        building.step(number, at=at, dur=95)
        for each in range(2):
            building.launch(at=at + 10 * each, dur=4).kernel(at=at + 10 * each + 5, dur=5, name=f"kernel_{each}")
        building.sync(at=at + 80, dur=4)
    path = pytester.path / "step.json"
    building.write(path)
    return path


def out(result: pytest.RunResult) -> str:
    return "\n".join([*result.outlines, *result.errlines])


def test_a_stored_trace_is_checked_without_a_gpu(run: Any, step: Path) -> None:
    result = run("""
        import pytest

        @pytest.mark.launchscope(launches="<= 2", blocking_calls="<= 1")
        def test_holds(launchscope):
            assert launchscope.check("step.json").outcome == "holds"

        @pytest.mark.launchscope(launches="<= 2", blocking_calls=0)
        def test_waits(launchscope):
            launchscope.check("step.json")
    """)
    result.assert_outcomes(passed=1, failed=1)
    told = out(result)
    assert "REGRESSION: 1 of 2 limits is broken: step.json, trace (blocking_calls)" in told
    assert "Traceback" not in told
    assert "guard.py" not in told, "the story alone, no lines of ours"


def test_modes_of_a_capture(run: Any) -> None:
    result = run(f"""
        import pytest

        pytestmark = pytest.mark.launchscope(graph_coverage=1)

        @pytest.mark.launchscope(modes=("eager", "graph", "fused_graph"))
        def test_graphs(launchscope):
            doc = launchscope.check({str(LIVE)!r})
            assert [part.current.mode for part in doc.parts] == ["eager", "graph", "fused_graph"]
            assert [len(part.findings) for part in doc.parts] == [0, 1, 1], "eager is to launch kernel by kernel"

        @pytest.mark.launchscope(modes="eager", launches="<= 1")
        def test_eager(launchscope):
            launchscope.check({str(LIVE)!r})

        @pytest.mark.launchscope(modes="as_written")
        def test_lacking(launchscope):
            launchscope.check({str(LIVE)!r})
    """)
    result.assert_outcomes(passed=1, failed=2)
    assert "REGRESSION: the only limit is broken" in out(result)
    assert "TO FIX: as_written asked for, but what there is has eager, fused, fused_graph, graph" in out(result)


def test_what_can_not_be_read_or_told_fails_in_words(run: Any, step: Path) -> None:
    result = run("""
        import pytest

        @pytest.mark.launchscope(launches=1)
        def test_missing(launchscope):
            launchscope.check("nowhere.json")

        @pytest.mark.launchscope(step_time="<= 1 ms")
        def test_times_of_a_trace(launchscope):
            launchscope.check("step.json")
    """)
    result.assert_outcomes(failed=2)
    assert re.search(r"TO FIX: nowhere\.json", out(result))
    assert "the step times of a trace are profiled ones" in out(result)


def test_what_can_not_be_decided_fails_with_other_words(run: Any) -> None:
    result = run(f"""
        import pytest

        @pytest.mark.launchscope(step_time="+3%", modes="graph")
        def test_one_process(launchscope):
            launchscope.check({str(LIVE)!r}, baseline={str(LIVE)!r})
    """)
    result.assert_outcomes(failed=1)
    assert "INCONCLUSIVE: the only limit can't be told" in out(result)
    assert "REGRESSION" not in out(result)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("lanches='<= 300'", "test_it: no figure 'lanches' (did you mean 'launches'?)"),
        ("launches='about 300'", "test_it: launches = 'about 300' is no limit"),
        ("launches=1, modes='grahp'", "test_it: no mode 'grahp' (did you mean 'graph'?)"),
        ("'<= 300'", "test_it: limits have names: @pytest.mark.launchscope(launches='<= 300'), say"),
        ("modes='graph'", "test_it: @pytest.mark.launchscope without a limit checks nothing"),
    ],
)
def test_words_that_are_no_limits_are_usage_errors(run: Any, mark: str, said: str) -> None:
    result = run(f"""
        import pytest

        @pytest.mark.launchscope({mark})
        def test_it(launchscope):
            pass
    """)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in out(result)


def test_marks_that_check_nothing_are_refused(run: Any) -> None:
    result = run("""
        import pytest

        @pytest.mark.launchscope(launches=1)
        def test_without_the_fixture():
            pass
    """)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "test_without_the_fixture: marked, but without the fixture `launchscope`" in out(result)
    result = run("""
        import pytest

        @pytest.mark.launchscope(launches=1)
        def test_unused(launchscope):
            pass
    """)
    result.assert_outcomes(failed=1)
    assert "neither launchscope.profile nor launchscope.check was called" in out(result)
    result = run("""
        import pytest

        @pytest.fixture
        def launchscope():
            return None

        @pytest.mark.launchscope(launches=1)
        def test_of_another_fixture(launchscope):
            pass
    """)
    result.assert_outcomes(failed=1)
    assert "marked, but its fixture `launchscope` is another one than launchscope's" in out(result)


def test_a_pytest_without_a_terminal_tells_the_same(run: Any, step: Path) -> None:
    """As each worker of pytest-xdist is one."""
    result = run(
        """
        import pytest

        @pytest.mark.launchscope(blocking_calls=0)
        def test_waits(launchscope):
            launchscope.check("step.json")
        """,
        "-p",
        "no:terminal",
        "--junitxml=told.xml",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "REGRESSION: the only limit is broken" in Path("told.xml").read_text()


def test_measuring_skips_without_a_gpu_with_the_reason(run: Any) -> None:
    test = """
        import pytest

        @pytest.mark.launchscope(launches=1)
        def test_it(launchscope):
            launchscope.profile("model.py")
    """
    result = run(test, "-rs", conftest=NO_GPU)
    result.assert_outcomes(skipped=1)
    assert "no GPU driver found on this machine" in out(result)
    result = run(test, "--launchscope-require-gpu", conftest=NO_GPU)
    result.assert_outcomes(failed=1)
    assert "TO FIX: no GPU driver found on this machine" in out(result)


def test_measuring_takes_modes_and_processes_from_the_limits(run: Any) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.launchscope(launches="<= 7", modes=("graph",))
        def test_counts(launchscope, calls):
            report = launchscope.profile("model.py", batch_size=8)
            assert list(report.document.profile.modes) == ["eager", "graph", "fused", "fused_graph"]
            target, options = calls.pop()
            assert (target, options["modes"], options["batch_size"]) == ("model.py", ("graph",), 8)
            assert "repeats" not in options
            assert options["out"].name == "capture"

        @pytest.mark.launchscope(step_time="<= 1 s", modes=("graph",))
        def test_times(launchscope, calls):
            with pytest.raises(pytest.fail.Exception, match="can't tell with 1 process"):  # the capture has one
                launchscope.profile("model.py")
            assert calls.pop()[1]["repeats"] == 8

        def test_without_limits(launchscope):
            assert launchscope.profile("model.py").document.profile is not None
        """,
        conftest=A_GPU,
    )
    result.assert_outcomes(passed=3)


def test_a_process_profiles_a_live_step_once(run: Any) -> None:
    result = run(
        """
        import pytest

        pytestmark = pytest.mark.launchscope(launches="<= 7", modes=("graph",))

        def test_first(launchscope):
            launchscope.profile(lambda: None)

        def test_second(launchscope):
            launchscope.profile(lambda: None)

        def test_file(launchscope):
            launchscope.profile("model.py")
        """,
        conftest=A_GPU,
    )
    result.assert_outcomes(passed=2, failed=1)
    told = " ".join(out(result).split())
    assert "test_first has profiled in this process, and a process can profile a live step once" in told
    assert "Put the step into a file" in told


RELATIVE = """
    import pytest

    @pytest.mark.launchscope(launches="+0", blocking_calls="<= 100", modes=("graph",))
    def test_both(launchscope):
        launchscope.profile("model.py")

    @pytest.mark.launchscope(kernels="+0", modes=("graph",))
    def test_relative(launchscope):
        launchscope.profile("model.py")
"""


def test_what_is_stored_becomes_a_baseline_too(run: Any, pytester: pytest.Pytester) -> None:
    stored = f"""
        import pytest

        @pytest.mark.launchscope(kernels="+0", modes="graph")
        def test_it(launchscope):
            launchscope.check({str(LIVE)!r})
    """
    result = run(stored, "--launchscope-save")
    result.assert_outcomes(passed=1)
    assert len(list((pytester.path / "launchscope-baselines").rglob("*.json"))) == 1
    run(stored, "--launchscope-compare").assert_outcomes(passed=1)
    result = run("def test_it(): pass", "--launchscope-save")
    assert "--launchscope-save: nothing was saved, as no marked test held" in out(result)


def test_baselines_are_saved_and_compared_with_when_asked(run: Any, pytester: pytest.Pytester) -> None:
    result = run(RELATIVE, "-rs", conftest=A_GPU)
    result.assert_outcomes(passed=1, skipped=1)
    assert "2 limits of 2 tests need a baseline and were not checked: --launchscope-compare" in out(result)

    result = run(RELATIVE, "--launchscope-compare", conftest=A_GPU)
    result.assert_outcomes(failed=2)
    assert "TO FIX: 1 of 2 limits can't be checked: Sequential, graph (launches)" in out(result)
    assert "pytest --launchscope-save saves baselines of what is profiled and checked." in out(result)

    result = run(RELATIVE, "--launchscope-save", "--launchscope-baselines", "kept", conftest=A_GPU)
    result.assert_outcomes(passed=2)
    saved = list((pytester.path / "kept").rglob("*.json"))
    assert len(saved) == 2
    assert f"saved {saved[0]}" in out(result)

    result = run(RELATIVE, "--launchscope-compare", "--launchscope-baselines", "kept", conftest=A_GPU)
    result.assert_outcomes(passed=2)

    saved[0].write_text("{")
    result = run(RELATIVE, "--launchscope-compare", "--launchscope-baselines", "kept", conftest=A_GPU)
    result.assert_outcomes(failed=2)
    assert f"TO FIX: {saved[0]}: a damaged baseline" in out(result)
    assert "guard.py" not in out(result)


HEAVY = ("torch", "pandas", "numpy", "msgspec")


def test_a_run_without_marked_tests_loads_nothing_heavy(run: Any) -> None:
    result = run(
        f"""
        import sys

        def test_other():
            assert not {set(HEAVY)!r} & set(sys.modules)
    """,
        process=True,
    )
    result.assert_outcomes(passed=1)


def test_checking_what_is_stored_loads_neither_torch_nor_pandas(run: Any, step: Path) -> None:
    result = run(
        """
        import sys
        import pytest

        @pytest.mark.launchscope(launches="<= 2")
        def test_it(launchscope):
            launchscope.check("step.json")
            assert not {"torch", "pandas"} & set(sys.modules)
    """,
        process=True,
    )
    result.assert_outcomes(passed=1)


def test_the_marker_and_the_options_are_told(run: Any) -> None:
    assert "@pytest.mark.launchscope(launches='<= 300'" in out(run("", "--markers"))
    told = out(run("", "--help"))
    for option in ("save", "compare", "baselines", "require-gpu"):
        assert f"--launchscope-{option}" in told
