"""The pytest plugin: ``@pytest.mark.launchscope(launches="<= 300")`` and the fixture ``launchscope`` (docs/guard.md).

It is loaded by every pytest run where launchscope is installed: what it needs beside pytest loads with the first
marked test that is collected, torch with the first step that is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from .guard import Guard, Session

MARKER: Final = "launchscope"
FIXTURE: Final = "launchscope"

SAVED: Final = "launchscope.saved"  # file of a baseline
UNCHECKED: Final = "launchscope.unchecked"  # number of limits that need a baseline
"""User properties of a test: its report takes them to the summary of the run, from the workers of pytest-xdist too."""

_SESSION: Final = pytest.StashKey["Session"]()
_GUARD: Final = pytest.StashKey["Guard"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("launchscope", "limits on launches, graphs and times of decode steps")
    group.addoption("--launchscope-save", action="store_true", help="save what is profiled or checked as baselines")
    group.addoption(
        "--launchscope-compare",
        action="store_true",
        help="check limits such as '+3%%' too, against the saved baselines",
    )
    group.addoption(
        "--launchscope-baselines",
        metavar="DIR",
        help="folder of the baselines [default: launchscope-baselines in pytest's rootdir]",
    )
    group.addoption(
        "--launchscope-require-gpu",
        action="store_true",
        help="fail tests that would measure a step and find no GPU, instead of skipping them",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "launchscope(launches='<= 300', graph_coverage='>= 0.95', blocking_calls=0, modes=('graph',)): limits on "
        "what the fixture `launchscope` measures or reads, in the words of launchscope.toml",
    )


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Refuse marks that can't be understood, and those that would check nothing, before any test runs."""
    marked = [item for item in items if item.get_closest_marker(MARKER) is not None]
    if not marked:
        return
    from .guard import why_not

    wrong = [why for item in marked if (why := why_not(item.nodeid, _words(item), _arguments(item))) is not None]
    wrong += [
        f"{item.nodeid}: marked, but without the fixture `{FIXTURE}`, so nothing would be checked"
        for item in marked
        if FIXTURE not in getattr(item, "fixturenames", ())
    ]
    if wrong:
        raise pytest.UsageError("\n".join(wrong))


def _words(item: pytest.Item) -> dict[str, Any]:
    """The words of all marks: those of the test before its class's and its module's."""
    words: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(MARKER))):
        words |= mark.kwargs
    return words


def _arguments(item: pytest.Item) -> tuple[Any, ...]:
    """What marks hold without a name: nothing, if they are right."""
    return tuple(argument for mark in item.iter_markers(MARKER) for argument in mark.args)


@pytest.fixture
def launchscope(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Guard:
    """Measures a step, or reads what was recorded, and fails the test where a limit of its mark does not hold.

    launchscope.profile(step_or_path, **options)   as launchscope.profile; returns its Report
    launchscope.check(path, baseline=None)         a capture, a trace or a report; returns the finished check
    """
    from .guard import Guard

    node, config = request.node, request.config
    guard = Guard(
        session=_session(config),
        test=node.nodeid,
        words=_words(node),
        root=config.rootpath,
        folder=lambda: tmp_path_factory.mktemp("launchscope"),
        width=_width(config),
        saved=lambda path: node.user_properties.append((SAVED, str(path))),
        unchecked=lambda count: node.user_properties.append((UNCHECKED, count)),
    )
    node.stash[_GUARD] = guard
    return guard


def _session(config: pytest.Config) -> Session:
    """The run's, made when the first test needs it."""
    from .guard import Session

    folder = config.getoption("--launchscope-baselines")
    session = Session(
        save=config.getoption("--launchscope-save"),
        compare=config.getoption("--launchscope-compare"),
        baselines=None if folder is None else config.invocation_params.dir / folder,
        require_gpu=config.getoption("--launchscope-require-gpu"),
    )
    return config.stash.setdefault(_SESSION, session)


def _width(config: pytest.Config) -> int:
    """Columns of the terminal; 0 where pytest has none, as in the workers of pytest-xdist."""
    return config.get_terminal_writer().fullwidth if config.pluginmanager.has_plugin("terminalreporter") else 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A marked test that passed without a measurement has checked nothing."""
    result = yield
    guard = item.stash.get(_GUARD, None)
    if item.get_closest_marker(MARKER) is not None and guard is None:
        pytest.fail(f"marked, but its fixture `{FIXTURE}` is another one than launchscope's", pytrace=False)
    if guard is not None and guard.words and not guard.used:
        pytest.fail(f"marked, but neither {FIXTURE}.profile nor {FIXTURE}.check was called", pytrace=False)
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    properties = list(_properties(terminalreporter))
    lines = [f"saved {value}" for _, name, value in properties if name == SAVED]
    if config.getoption("--launchscope-save") and not lines:
        lines.append("--launchscope-save: nothing was saved, as no marked test held")
    unchecked = {test: value for test, name, value in properties if name == UNCHECKED}
    if unchecked:
        from ..analysis.model.units import plural

        count = sum(unchecked.values())
        limits, tests = plural(count, "limit"), plural(len(unchecked), "test")
        verb = "needs a baseline and was" if count == 1 else "need a baseline and were"
        lines.append(f"{limits} of {tests} {verb} not checked: --launchscope-compare checks them")
    if lines:
        terminalreporter.section("launchscope")
        for line in lines:
            terminalreporter.write_line(line)


def _properties(terminalreporter: pytest.TerminalReporter) -> Iterator[tuple[str, str, Any]]:
    """Test, name and value of all user properties, each once: reports of setup and teardown have them, too."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport) and report.when == "call":
                yield from ((report.nodeid, *each) for each in report.user_properties)
