"""Every outcome of a check, and which of them is the answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.compare.check_story import render_terminal
from launchscope.analysis.compare.config import DEFAULTS, Limits
from launchscope.analysis.compare.documents import EXIT_CODES, HOLDS, INCONCLUSIVE, REGRESSION, TO_FIX
from launchscope.analysis.compare.judge import check
from launchscope.analysis.compare.limits import FIGURES
from launchscope.analysis.compare.snapshot import Snapshot, Timing
from launchscope.analysis.model.errors import ConfigError
from msgspec.structs import replace

from .snapshots import ADD, ITEM, MACHINE, MM, MS, eager, found, graph, limits, timings, trace

NOTHING = Limits()
OTHER = MACHINE | {"driver": "590"}


def test_without_limits_counts_must_not_get_worse_than_the_baselines() -> None:
    document = check([eager(), graph()], [eager(), graph()], NOTHING)
    assert (document.outcome, document.exit_code) == (HOLDS, 0)
    assert [[each.figure for each in part.findings] for part in document.parts] == [
        [figure for figure in DEFAULTS if figure != "graph_coverage"],  # eager has none by what it is
        list(DEFAULTS),
    ]
    assert {each.where for part in document.parts for each in part.findings} == {"default"}
    assert document.notes == ['Times were not looked at: no limit is on them (step_time = "+3%", say).']


def test_a_regression_says_measured_allowed_baseline_and_where_to_look() -> None:
    now = eager(launches=328.0, launch_sites=(MM, replace(ADD, per_step=128.0)))
    document = check([now], [eager()], limits(launches="+10"))
    finding = found(document, "launches")
    assert (document.outcome, document.exit_code, finding.outcome) == (REGRESSION, 1, REGRESSION)
    assert (finding.measured, finding.allowed, finding.baseline) == (328.0, 310.0, 300.0)
    assert finding.message == "328 launches per step where at most 310 are allowed (the baseline's 300)"
    assert finding.first_look == "28 launches per step from aten::add, at model.py(57): forward"
    assert (finding.limit, finding.where) == ("+10", "launchscope.toml [limits]")
    assert document.parts[0].causes == ["28 launches more from aten::add (100 → 128 per step)."]


@pytest.mark.parametrize(
    ("figure", "limit", "message"),
    [
        ("launches", "<= 299", "300 launches per step where at most 299 are allowed"),
        ("launches", 1, "300 launches per step where exactly 1 is allowed"),
        (
            "gpu_work",
            "< 0.5 ms",
            "GPU work per step 500 µs where less than 500 µs is allowed: one figure of all record",
        ),
        ("graph_launches", ">= 1", "0 graph launches per step where at least 1 is asked for"),
    ],
)
def test_limits_without_a_baseline(figure: str, limit: object, message: str) -> None:
    finding = found(check([eager()], None, limits(eager={figure: limit})), figure)
    assert finding.outcome == REGRESSION
    assert finding.message.startswith(message)
    assert finding.baseline is None


def test_means_that_float_noise_alone_tells_apart_are_the_same() -> None:
    now = eager(launches=300.0 + 1e-10)
    assert check([now], [eager()], NOTHING).outcome == HOLDS


def test_one_call_in_every_fourth_step_is_a_regression() -> None:
    now = eager(blocking_calls=0.25, blocking_sites=(replace(ITEM, per_step=0.25),))
    finding = found(check([now], [eager()], NOTHING), "blocking_calls")
    assert finding.message == "0.25 blocking calls per step where at most 0 are allowed (the baseline's 0)"
    assert finding.first_look == "cudaStreamSynchronize in aten::item, at model.py(42): step (0.25 per step)"


def test_nothing_to_check_by_is_no_pass() -> None:
    with pytest.raises(ConfigError, match="nothing to check: no limits and no baseline"):
        check([eager()], None, NOTHING)
    with pytest.raises(ConfigError, match=r"no limit is about what is here .target tiny.py; modes: eager"):
        check([eager()], None, limits(**{"other.py": {"launches": 1}}))
    with pytest.raises(ConfigError, match="none of these modes may replay graphs: eager"):
        check([eager()], None, NOTHING, require_graph=True, every_mode=False)


def test_a_limit_on_the_baseline_without_one_is_something_to_fix() -> None:
    document = check([eager()], None, limits(launches="+0", kernels=300))
    finding = found(document, "launches")
    assert (document.exit_code, finding.outcome, finding.allowed) == (2, TO_FIX, None)
    assert "there is no baseline: save one with launchscope baseline save tiny.zip" in finding.message
    assert found(document, "kernels").outcome == HOLDS
    other = check([eager()], [eager(target="other.py")], limits(launches="+0"))
    assert "there is no baseline of tiny.py in mode eager" in found(other, "launches").message
    own = check([eager()], [graph(mode="as_written", batch_size=8)], limits(launches="+0"))
    assert "the baseline of tiny.py in mode as_written has batch size 8, not 1" in found(own, "launches").message
    batch = check([eager()], [eager(batch_size=8)], limits(launches="+0"))
    assert "the baseline of tiny.py in mode eager has batch size 8, not 1" in found(batch, "launches").message


def test_the_gravest_outcome_is_the_answer() -> None:
    """A regression that was found stays one; to fix comes before what can't be told."""
    asked = limits(launches="+0", kernels=1, step_time="<= 1 ms")
    few = {"timings": timings(2.0, 2.0)}
    document = check([eager(**few)], None, asked)
    outcomes = {each.figure: each.outcome for each in document.parts[0].findings}
    assert outcomes == {"launches": TO_FIX, "kernels": REGRESSION, "step_time": INCONCLUSIVE}
    assert document.exit_code == 1
    assert check([eager(**few)], None, limits(launches="+0", step_time="<= 1 ms")).exit_code == 2
    assert check([eager(**few)], None, limits(launches=300, step_time="<= 1 ms")).exit_code == 3


def test_an_unreliable_recording_tells_no_counts() -> None:
    now = eager(launches=None, unreliable=("no launches in the file",))
    document = check([now], None, limits(launches=1, step_time="<= 3 ms"))
    assert (found(document, "launches").outcome, document.exit_code) == (TO_FIX, 2)
    assert found(document, "launches").message == "the recording can't be trusted: no launches in the file"
    assert found(document, "step_time").outcome == HOLDS  # timed without a profiler
    base = check([eager()], [now], limits(launches="+0"))
    assert found(base, "launches").message == "the baseline's recording can't be trusted: no launches in the file"
    assert base.exit_code == 2
    lost = eager(launches=None, withheld={"launches": "no steps found"}, unreliable=("records were lost",))
    assert check([lost], None, limits(launches=1)).exit_code == 2


def test_what_is_withheld_is_not_told() -> None:
    now = eager(launches=None, withheld={"launches": "no steps found"})
    finding = found(check([now], None, limits(launches=1)), "launches")
    assert (finding.outcome, finding.message) == (INCONCLUSIVE, "it can't be told: no steps found")
    finding = found(check([eager()], [now], limits(launches="+0")), "launches")
    assert (finding.outcome, finding.message) == (INCONCLUSIVE, "the baseline doesn't tell it: no steps found")


def test_times_of_another_machine_are_to_fix_and_counts_are_checked() -> None:
    asked = limits(launches="+0", step_time="+3%", gpu_work="+3%")
    document = check([eager(machine=OTHER)], [eager()], asked)
    assert document.parts[0].differs == {"driver": ["580", "590"]}
    assert [(each.figure, each.outcome) for each in document.parts[0].findings] == [
        ("launches", HOLDS), ("step_time", TO_FIX), ("gpu_work", TO_FIX),
    ]  # fmt: skip
    assert found(document, "step_time").message == (
        "times of another machine are not comparable (driver 590, the baseline's 580): save a baseline of this one"
    )
    same = check([eager(machine=OTHER)], [eager()], asked, same_machine=True)
    assert found(same, "launches").outcome == TO_FIX
    absolute = check([eager(machine=OTHER)], [eager()], limits(step_time="<= 3 ms", launches=300), same_machine=True)
    assert absolute.outcome == HOLDS


def step_time(
    now: Snapshot, base: Snapshot, limit: str = "+3%", figure: str = "step_time"
) -> tuple[str, int | None, str]:
    finding = found(check([now], [base], limits(graph={figure: limit})), figure)
    return finding.outcome, finding.needed_processes, finding.message


def test_a_slower_step_is_a_regression_when_it_is_significant_and_over_the_limit() -> None:
    base = graph()
    slower, little = graph(timings=timings(*[0.66] * 8)), graph(timings=timings(*[0.606] * 8))
    outcome, needed, message = step_time(slower, base)
    assert (outcome, needed) == (REGRESSION, None)
    assert message == "step time +10.0 % (99 % interval +8.9 % to +11.1 %, 8 processes) where +3.0 % is allowed"
    assert step_time(little, base)[0] == HOLDS
    assert step_time(slower, base, "+50 us")[0] == REGRESSION
    assert step_time(slower, base, "+70 us")[0] == HOLDS
    interval = found(check([slower], [base], limits(graph={"step_time": "+3%"})), "step_time").interval
    assert interval is not None
    assert (interval.processes, interval.processes_baseline, interval.paired) == (8, 8, False)
    assert interval.between_runs == 0.01


def test_too_few_processes_can_not_tell_and_how_many_can() -> None:
    few = graph(timings=timings(0.66, 0.66, 0.66))
    outcome, needed, message = step_time(few, graph(timings=timings(0.6, 0.6, 0.6)))
    assert (outcome, needed) == (INCONCLUSIVE, 5)
    assert message == (
        "can't tell with 3 processes: step time +10.0 % (no interval) where +3.0 % is allowed; at least 5 processes "
        "are needed on each side (launchscope profile --for-check)"
    )


def test_two_runs_whose_pace_the_host_sets_differ_by_too_much() -> None:
    """Submitting takes 1.9 of 2 ms: another start of the machine may be twice as slow."""
    host = timings(*[2.0] * 8, host_ms=1.9)
    slower = timings(*[2.4] * 8, host_ms=2.3)
    finding = found(check([eager(timings=slower)], [eager(timings=host)], limits(step_time="+3%")), "step_time")
    assert (finding.outcome, finding.needed_processes) == (INCONCLUSIVE, None)
    assert finding.message.endswith(
        "; two runs of the same code may differ by as much, so more processes don't help; measure both in turn "
        "(launchscope profile TARGET --against OTHER)"
    )


def test_one_run_is_paired_by_repeat() -> None:
    """The host's pace doubles from one process to the next, in both alike."""
    pace = [2.0, 2.4, 3.0, 3.6, 2.2, 4.0, 2.6, 2.8]
    base = eager(run="r", timings=timings(*pace, host_ms=1.9))
    slower = eager(run="r", timings=tuple(reversed(timings(*[ms * 1.1 for ms in pace], host_ms=2.0))))
    document = check([slower], [base], limits(step_time="+3%"))
    finding = found(document, "step_time")
    assert finding.interval is not None
    assert (finding.outcome, finding.interval.paired, finding.interval.processes) == (REGRESSION, True, 8)
    assert finding.interval.change == pytest.approx(0.1)
    assert "8 pairs" in finding.message


def test_a_process_that_only_one_side_has_is_no_pair() -> None:
    base, now = graph(run="r"), graph(run="r", timings=timings(*[0.6] * 9)[1:])
    interval = found(check([now], [base], limits(graph={"step_time": "+3%"})), "step_time").interval
    assert interval is not None
    assert interval.processes == 7


def test_the_limit_of_a_time_itself() -> None:
    assert check([graph()], None, limits(graph={"step_time": "<= 0.7 ms"})).outcome == HOLDS
    finding = found(check([graph()], None, limits(graph={"step_time": "<= 0.5 ms"})), "step_time")
    assert (finding.outcome, finding.measured, finding.allowed) == (REGRESSION, 0.6 * MS, 0.5 * MS)
    assert finding.message == "step time 600 µs where at most 500 µs is allowed"
    few = found(check([graph(timings=timings(0.6))], None, limits(graph={"step_time": "<= 0.5 ms"})), "step_time")
    assert (few.outcome, few.needed_processes) == (INCONCLUSIVE, 8)


def test_idle_times_come_from_each_process() -> None:
    """Launch tax: 90 % of T − W = 1.5 ms. True idle: 1.5 of 2 ms."""
    document = check([eager()], None, limits(launch_tax="<= 2 ms", true_idle="<= 0.8"))
    assert document.outcome == HOLDS
    assert found(document, "launch_tax").measured == pytest.approx(1.35 * MS)
    assert found(document, "true_idle").measured == pytest.approx(0.75)


def test_what_moves_the_step_time_moves_its_idle_part_by_more() -> None:
    """T − W is a sixth of T: a step that another run has 1 % slower has 6 % more idle time, and W may differ, too."""
    finding = found(check([graph()], [graph()], limits(graph={"true_idle": "+0.2"})), "true_idle")
    assert finding.interval is not None
    assert finding.interval.between_runs == pytest.approx(2 * 0.01 * 0.5 / 0.1)
    tax = graph(launch_tax_share=0.5)
    finding = found(check([tax], [tax], limits(graph={"launch_tax": "+50%"})), "launch_tax")
    assert finding.interval is not None
    assert finding.interval.between_runs == pytest.approx(0.01 * (0.6 + 0.5) / 0.1)


def test_points_of_a_share() -> None:
    base = graph()  # idle for 1/6 of the step
    now = graph(timings=timings(*[0.75] * 8))  # for 1/3
    assert step_time(now, base, "+0.03", "true_idle")[0] == REGRESSION
    assert step_time(base, base, "+0.03", "true_idle")[0] == HOLDS


def test_a_share_is_told_in_points_and_what_w_may_differ_by_is_no_regression() -> None:
    """Of a sixth, 1 % of W is 0.8 points: pairs of one run, too, have W of one recording each."""
    runs = {"run": "one"}
    now, base = (graph(timings=timings(*[ms] * 8), **runs) for ms in (0.603, 0.6))
    outcome, _, message = step_time(now, base, "+0", "true_idle")
    assert outcome == INCONCLUSIVE
    assert message.startswith(
        "can't tell with 8 pairs: true idle +0.4 points (99 % interval −0.4 points to +1.3 points) where +0.0 points "
        "is allowed; "
    )


def test_a_sentence_tells_apart_what_its_limit_tells_apart() -> None:
    now, base = graph(timings=timings(*[0.60832] * 8)), graph()
    close = found(check([now], [base], limits((0.0, 0.0), graph={"step_time": "+1.38%"})), "step_time")
    assert close.message == (
        "step time +1.39 % (99 % interval +1.39 % to +1.39 %, 8 processes) where +1.38 % is allowed"
    )
    idle = found(check([now], None, limits(graph={"gpu_work": "<= 499.99 us"})), "gpu_work")
    assert idle.message.startswith("GPU work per step 500 µs where at most 499.99 µs is allowed")


def test_what_was_as_bad_before_is_not_looked_for_in_what_changed() -> None:
    now = eager(launches=299.0, launch_sites=(ADD, replace(MM, per_step=99.0)))
    finding = found(check([now], [eager()], limits(launches="<= 10")), "launches")
    assert finding.outcome == REGRESSION
    assert finding.first_look == "100 launches per step from aten::add, at model.py(57): forward"


def test_a_baseline_of_nothing_has_no_share() -> None:
    none, some = graph(), graph(launch_tax_share=0.5)
    assert step_time(none, none, "+5%", "launch_tax")[0] == HOLDS
    outcome, _, message = step_time(some, none, "+5%", "launch_tax")
    assert outcome == TO_FIX
    assert 'no change can be told: limit the value, launch_tax = "<= 100 us", say' in message
    assert step_time(some, none, "+60 us", "launch_tax")[0] == HOLDS
    assert step_time(none, some, "+5%", "launch_tax")[0] == HOLDS


def test_idle_below_resolution_is_not_told() -> None:
    why = "below resolution: T − W is smaller than W's uncertainty"
    now = graph(withheld={"true_idle": why, "launch_tax": why})
    for figure, limit in (("true_idle", "<= 0.1"), ("launch_tax", "<= 1 us")):
        finding = found(check([now], None, limits(graph={figure: limit})), figure)
        assert (finding.outcome, finding.message) == (INCONCLUSIVE, f"it can't be told: {why}")


def test_memory_of_graphs() -> None:
    more = graph(graph_memory_bytes=40 << 20)
    finding = found(check([more], [graph()], limits(graph_memory="+3%")), "graph_memory")
    assert finding.message == (
        "memory held by graphs 40.0 MiB where at most 33.0 MiB is allowed (the baseline's 32.0 MiB)"
    )
    assert check([more], [graph()], limits(graph_memory="<= 64 MiB")).outcome == HOLDS


def test_require_graph() -> None:
    lost = graph(graph_coverage=0.0, launches=300.0, launch_sites=(MM, ADD))
    document = check([eager(), lost], None, NOTHING, require_graph=True)
    finding = found(document, "graph_coverage")
    assert (document.exit_code, finding.where, finding.limit) == (1, "--require-graph", ">= 0.95")
    assert finding.message == "graph coverage 0 % where at least 95 % is asked for"
    assert finding.first_look == "200 launches per step from aten::mm, at model.py(60): forward"
    assert document.notes == ["No limit is about eager."]
    assert check([eager(), graph()], None, NOTHING, require_graph=True).exit_code == 0
    assert check([trace()], None, NOTHING, require_graph=True).exit_code == 1
    stricter = check([graph()], None, limits(graph={"graph_coverage": 1}), require_graph=True)
    assert found(stricter, "graph_coverage").where == "launchscope.toml [limits.graph]"


def test_a_mode_that_failed_is_a_regression_with_its_error() -> None:
    failed = Snapshot(launchscope="0", target="tiny.py", mode="graph", error="aten::item can't be captured", source="x")
    now = [eager(blocking_calls=1.0, blocking_sites=(ITEM,)), replace(failed, batch_size=1, dtype="bf16")]
    document = check(now, None, NOTHING, require_graph=True)
    finding = found(document, "runs")
    assert (document.exit_code, finding.message) == (1, "it failed to run: aten::item can't be captured")
    assert finding.first_look == "cudaStreamSynchronize in aten::item, at model.py(42): step (1 per step)"
    both = check([now[1]], [now[1]], limits(graph={"launches": 1}))
    assert (found(both, "runs").outcome, both.exit_code) == (TO_FIX, 2)
    unasked = check(now, None, limits(eager={"launches": 300}))
    assert (unasked.exit_code, unasked.parts[1].findings) == (0, [])


def test_a_guarded_mode_that_was_not_measured_is_to_fix() -> None:
    document = check([eager()], [eager(), graph()], NOTHING)
    finding = found(document, "runs")
    assert (document.exit_code, finding.mode, finding.outcome) == (2, "graph", TO_FIX)
    assert finding.message == (
        "the baseline has mode graph, which was not measured: measure it too, or name what to check with --mode"
    )
    assert check([eager()], [eager(), graph()], NOTHING, every_mode=False).exit_code == 0
    assert check([eager()], [eager(), graph(batch_size=8)], NOTHING).exit_code == 0  # of another setup
    assert check([eager()], [eager(), graph()], limits(eager={"launches": "+0"})).exit_code == 0  # nobody guards it
    named = check([eager()], None, limits(eager={"launches": 300}, graph={"launches": 1}))
    assert found(named, "runs").message.startswith("there are limits on mode graph, which was not measured")
    assert check([trace()], None, limits(launches=300, graph={"launches": 1})).exit_code == 0


def test_the_baseline_is_of_the_same_machine_before_it_is_new() -> None:
    old = eager(launches=300.0, saved="2026-01-01")
    newer = eager(launches=301.0, saved="2026-02-01")
    elsewhere = eager(launches=302.0, saved="2026-03-01", machine=OTHER)

    def baseline(*baselines: Snapshot) -> float | None:
        return found(check([eager()], baselines, limits(launches="+5")), "launches").baseline

    assert baseline(elsewhere, old, newer) == 301.0
    assert baseline(elsewhere) == 302.0
    assert baseline(elsewhere, replace(elsewhere, saved="2026-04-01", launches=299.0)) == 299.0


def test_a_trace_fits_another_of_any_name_if_there_is_one_each() -> None:
    base = trace(target="yesterday.json.gz")
    document = check([trace()], [base, eager()], limits(launches="+0"))
    assert document.exit_code == 0
    assert document.notes == ["step-3.json.gz was compared with yesterday.json.gz: the only one on either side."]
    two = check([trace(), trace(target="b")], [base], limits(launches="+0"))
    assert two.exit_code == 2
    assert check([trace()], [base, trace(target="b")], limits(launches="+0")).exit_code == 2


def test_a_baseline_that_was_named_may_have_another_targets_name() -> None:
    base = eager(target="old.py")
    assert check([eager()], [base], limits(launches="+0")).exit_code == 2
    assert check([eager()], [base], limits(launches="+0"), named=True).exit_code == 0
    assert check([eager()], [base, eager(target="b.py")], limits(launches="+0"), named=True).exit_code == 2


def test_a_baseline_that_was_named_may_have_another_setup_which_is_noted() -> None:
    document = check([eager()], [eager(batch_size=8)], limits(launches="+0"), named=True)
    assert document.exit_code == 0
    assert document.notes == ["The baseline of eager has batch size 8, not 1: what differs may come from that."]
    now, base = eager(settings={"layers": "4", "item": "true"}), eager(settings={"layers": "2"})
    assert check([now], [base], limits(launches="+0"), named=True).notes == [
        "The baseline of eager has --set layers 2, not 4; --set item unset, not true: what differs may come from that."
    ]
    two = [eager(batch_size=8), eager(batch_size=4)]
    assert check([eager()], two, limits(launches="+0"), named=True).exit_code == 2


def test_a_target_that_no_longer_replays_graphs_by_its_own_hand() -> None:
    """It was measured as written; now it is an ordinary step, and what runs it as written is eager."""
    base = graph(mode="as_written")
    document = check([eager()], [base], NOTHING)
    assert (document.exit_code, found(document, "graph_coverage").outcome) == (1, REGRESSION)
    assert document.parts[0].causes[0].startswith("Graph replays were lost: launches 1 → 300 per step")
    assert document.notes[-1] == (
        "tiny.py no longer replays graphs by its own hand: eager was compared with as_written."
    )
    asked = limits(**{"tiny.py": {"as_written": {"launches": "<= 3"}}})
    assert found(check([eager()], None, asked), "launches").where == 'launchscope.toml [limits."tiny.py".as_written]'
    assert check([eager(), graph()], [base], NOTHING, require_graph=True).exit_code == 1
    won = check([base], [eager()], NOTHING)
    assert won.exit_code == 0
    assert won.notes[-1] == "tiny.py now replays graphs by its own hand: as_written was compared with eager."
    assert (
        check([eager()], [eager(), base], NOTHING).parts[0].baseline
        == check([eager()], [eager()], NOTHING).parts[0].baseline
    )


def test_limits_on_steps_as_written_hold_for_one_that_lost_its_graph() -> None:
    asked = limits(as_written={"graph_coverage": ">= 0.95"})
    assert found(check([eager()], None, asked), "graph_coverage").outcome == REGRESSION
    with pytest.raises(ConfigError, match="no limit is about what is here"):  # a target that is to be captured
        check([eager(), graph()], None, asked)


@pytest.mark.parametrize("asked", [limits(), limits(graph_coverage=">= 0.95"), limits(memcpys=0)])
def test_asking_for_graphs_where_none_could_be_replayed_is_something_to_fix(asked: Limits) -> None:
    required = "graph_coverage" not in asked.tables[None, None]
    document = check([eager()], None, asked, require_graph=required)
    assert document.exit_code == 2
    finding = found(document, "runs")
    assert finding.where == ("--require-graph" if required else "launchscope.toml [limits]")
    assert "no mode that may replay them was measured: measure one (--modes graph)" in finding.message
    assert "where tiny.py replays graphs by its own hand, it no longer does" in finding.message
    assert check([eager(), graph()], None, asked, require_graph=required).exit_code == 0


def test_counts_that_got_worse_and_have_no_limit_are_told() -> None:
    document = check([eager(kernels=900.0)], [eager()], limits(launches="+0"))
    assert document.exit_code == 0
    assert document.notes == ["Worse than the baseline, in eager, and without a limit: kernels 300 → 900."]


def test_times_of_a_trace_are_not_told() -> None:
    finding = found(check([trace()], [trace()], limits(step_time="+3%")), "step_time")
    assert (finding.outcome, finding.message) == (
        INCONCLUSIVE,
        "it can't be told: the step times of a trace are profiled ones",
    )
    work = check([trace(gpu_work_ns=0.6e6)], [trace()], limits(gpu_work="+3%"))
    assert found(work, "gpu_work").message == (
        "GPU work per step 600 µs where at most 515 µs is allowed (the baseline's 500 µs): one figure of all "
        "recordings, without an interval"
    )


def test_limits_on_what_is_not_there_are_noted() -> None:
    document = check([eager()], None, limits(launches=300, **{"tinny.py": {"kernels": 1}}))
    assert document.notes == ["Limits of tinny.py are about nothing that was checked (tiny.py)."]


@st.composite
def any_snapshot(draw: st.DrawFn) -> Snapshot:
    """Figures that a damaged or strange file may have: none, nothing, tiny, huge."""
    value = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 1.0, 300.0]), st.floats(0, 1e300))
    names = ("launches", "kernels", "graph_launches", "blocking_calls", "memcpys", "graph_coverage", "gpu_work_ns")
    times = draw(st.lists(st.floats(1e3, 1e12), max_size=9))
    return graph(
        **{name: draw(value) for name in names},
        timings=tuple(Timing(repeat=n, samples_ns=(ns,), host_submit_ns=()) for n, ns in enumerate(times)),
        launch_tax_share=draw(st.one_of(st.none(), st.floats(-1, 2))),
        run=draw(st.sampled_from([None, "r"])),
        machine=draw(st.sampled_from([MACHINE, OTHER])),
    )


@given(any_snapshot(), any_snapshot(), st.booleans())
@settings(deadline=None, max_examples=60)
def test_any_figures_have_an_answer(now: Snapshot, base: Snapshot, relative: bool) -> None:
    asked = {
        "launches": "+3%", "graph_launches": "-1", "step_time": "+3%", "gpu_work": "+5 us", "launch_tax": "+3%",
        "true_idle": "+0.03", "graph_memory": "+0",
    } if relative else {name: figure.example for name, figure in FIGURES.items()}  # fmt: skip
    document = check([now], [base], limits(**asked))
    assert document.exit_code == EXIT_CODES[document.outcome]
    assert len(document.parts[0].findings) == len(asked)
    assert render_terminal(document, width=100, color=False, verbose=True)
    for finding in document.parts[0].findings:
        assert finding.message
        assert finding.outcome in EXIT_CODES
