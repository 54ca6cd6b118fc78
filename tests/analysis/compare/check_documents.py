"""Finished checks made by hand: one of each outcome, and names that try to leave their place in an output."""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec
from hypothesis import strategies as st
from launchscope.analysis.compare.documents import (
    EXIT_CODES,
    GRAVEST_FIRST,
    HOLDS,
    INCONCLUSIVE,
    REGRESSION,
    RUNS,
    TO_FIX,
    CheckDoc,
    CheckedSideDoc,
    FindingDoc,
    IntervalDoc,
    PartDoc,
)

MACHINE = {"gpu": "NVIDIA H200", "driver": "580.159", "cuda": "13.0", "torch": "2.11"}


def side(**changes: Any) -> CheckedSideDoc:
    return msgspec.structs.replace(
        CheckedSideDoc(
            source="launchscope-out/llama_1b",
            target="llama_1b.py",
            mode="graph",
            commit="3f2c1a9d0b7e5512ab",
            created="2026-11-29T17:02:35+00:00",
            processes=8,
            machine=dict(MACHINE),
        ),
        **changes,
    )


def finding(**changes: Any) -> FindingDoc:
    """The launches of a step that lost its graph."""
    return msgspec.structs.replace(
        FindingDoc(
            target="llama_1b.py",
            mode="graph",
            figure="launches",
            unit="count",
            limit="<= 300",
            where="launchscope.toml [limits.graph]",
            outcome=REGRESSION,
            measured=735.0,
            allowed=300.0,
            baseline=1.0,
            interval=None,
            needed_processes=None,
            message="735 launches per step where at most 300 are allowed",
            first_look="cudaLaunchKernel from aten::mm, at model.py(42): forward",
        ),
        **changes,
    )


def holding(figure: str = "blocking_calls", **changes: Any) -> FindingDoc:
    changes = {"limit": "0", "measured": 0.0, "allowed": 0.0, "baseline": 0.0, **changes}
    return finding(figure=figure, outcome=HOLDS, message=f"{figure}: as allowed", first_look=None, **changes)


def interval(
    change: float = 0.051, low: float | None = 0.039, high: float | None = 0.062, **changes: Any
) -> IntervalDoc:
    fields = {"paired": False, "processes": 8, "processes_baseline": 8, "between_runs": 0.01, **changes}
    return IntervalDoc(change=change, low=low, high=high, **fields)


def slower(**changes: Any) -> FindingDoc:
    fields: dict[str, Any] = {
        "figure": "step_time",
        "unit": "ns",
        "limit": "+3%",
        "measured": 2.407e6,
        "allowed": 2.359e6,
        "baseline": 2.29e6,
        "interval": interval(),
        "message": "the step takes 5.1 % longer than the baseline's, where 3 % are allowed",
        "first_look": None,
    }
    return finding(**(fields | changes))


def undecided(**changes: Any) -> FindingDoc:
    fields = {
        "outcome": INCONCLUSIVE,
        "interval": interval(0.02, None, None, processes=3, processes_baseline=3),
        "needed_processes": 8,
        "message": "can't tell with 3 processes: step time +2.0 % (no interval) where +3.0 % is allowed",
    }
    return slower(**(fields | changes))


def lacking(**changes: Any) -> FindingDoc:
    """A mode that the baseline has, and that failed to run."""
    fields = {"figure": RUNS, "limit": RUNS, "measured": 0.0, "allowed": 1.0, "message": "it failed to run: why"}
    return finding(**(fields | changes))


def part(*findings: FindingDoc, **changes: Any) -> PartDoc:
    return msgspec.structs.replace(
        PartDoc(current=side(), baseline=None, differs={}, findings=list(findings), causes=[]), **changes
    )


def check(*parts: PartDoc, notes: tuple[str, ...] = ()) -> CheckDoc:
    found = {each.outcome for part in parts for each in part.findings}
    outcome = next((each for each in GRAVEST_FIRST if each in found), HOLDS)
    return CheckDoc(
        launchscope="0.1.0", outcome=outcome, exit_code=EXIT_CODES[outcome], parts=list(parts), notes=list(notes)
    )


def regression() -> CheckDoc:
    """A lost graph in one of two modes, against a baseline."""
    lost = finding(
        figure="graph_coverage", unit="share", limit=">= 0.95", measured=0.0, allowed=0.95, baseline=1.0,
        message="no kernel runs in a graph, where at least 95 % have to",
    )  # fmt: skip
    eager = part(holding("kernels", limit="+0", measured=734.0, allowed=734.0), current=side(mode="eager"))
    graph = part(
        holding(),
        finding(),
        lost,
        baseline=side(source="launchscope-baselines/llama_1b-graph.json", commit="0b7e5512ab3f2c"),
        causes=["Graph replays were lost: launches 1 → 735 per step, 100 % → 0 % of the kernels run in graphs."],
    )
    return check(eager, graph, notes=("mode fused: not in the baseline",))


def inconclusive() -> CheckDoc:
    return check(part(undecided(), holding(), baseline=side()))


def to_fix() -> CheckDoc:
    fix = slower(outcome=TO_FIX, interval=None, message="times of another GPU are not comparable")
    return check(part(fix, holding(), baseline=side(), differs={"gpu": ["NVIDIA A100", "NVIDIA H200"]}))


def all_holds() -> CheckDoc:
    return check(part(holding(), holding("memcpys"), slower(outcome=HOLDS, interval=interval(0.0, -0.004, 0.005))))


CHECKS = {
    "regression": regression,
    "inconclusive": inconclusive,
    "to fix": to_fix,
    "holds": all_holds,
    "one limit": lambda: check(part(holding())),
    "the only one broken": lambda: check(part(finding())),
    "all broken": lambda: check(part(finding(), finding(figure="kernels"), lacking())),
    "none to be told": lambda: check(part(undecided(), undecided(figure="launch_tax"))),
    "nothing": lambda: check(notes=("no limit is about this mode",)),
}

UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}

NAMES = [
    "::error file=x::gotcha",
    "##[add-mask]x",
    "a%0A::error::b",
    "]]>",
    "<b>&amp;</b>",
    "a|b`c",
    "| a | b |",
    "a\nb\r\n::error::c",
    "\u202egnp.exe",
    "nul\x00 bell\x07 esc\x1b[31m",
    "lone \ud800 surrogate \udcff",
    "\ufffe\uffff",
    "void f<int>" * 500,
    "* [x](http://y) _z_ $w$ ~~v~~",
]


def draws(text: str) -> bool:
    """Whether no character of it but the line breaks moves or hides others."""
    return not {unicodedata.category(char) for char in text.replace("\n", "")} & UNSEEN


def names() -> st.SearchStrategy[str]:
    """What a kernel, an operator, a file or a target may be called."""
    alphabet = st.characters(exclude_categories=[])
    return st.one_of(st.sampled_from(NAMES), st.text(alphabet, min_size=1), st.text("|`:#%<>]&,\r\n\\*", min_size=1))


@st.composite
def checks(draw: st.DrawFn) -> CheckDoc:
    """Any check, with any text wherever text of others may stand."""
    text = names()

    def some_finding() -> FindingDoc:
        kind = draw(st.sampled_from([finding, holding, slower, undecided]))
        texts = {name: draw(text) for name in ("figure", "limit", "where", "message")}
        value = st.one_of(st.none(), st.floats(0, 1e12))
        numbers = {name: draw(value) for name in ("measured", "allowed", "baseline")}
        look = draw(st.one_of(st.none(), text, text.map(lambda name: f"{name} at a/b.py(7): {name}")))
        unit = draw(st.sampled_from(["count", "share", "ns", "bytes"]))
        made = kind()
        changed: FindingDoc = msgspec.structs.replace(made, **texts, **numbers, first_look=look, unit=unit)
        return changed

    def some_part() -> PartDoc:
        now = side(**{name: draw(text) for name in ("target", "mode", "source", "commit", "created")})
        return part(
            *(some_finding() for _ in range(draw(st.integers(0, 3)))),
            current=now,
            baseline=draw(st.sampled_from([None, now])),
            differs=draw(st.dictionaries(text, st.lists(text, min_size=2, max_size=2), max_size=1)),
            causes=draw(st.lists(text, max_size=2)),
        )

    parts = [some_part() for _ in range(draw(st.integers(0, 2)))]
    return check(*parts, notes=tuple(draw(st.lists(text, max_size=2))))
