"""Graph replays: which GPU ops ran as nodes of a graph, of which graph, and whether every node was recorded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..model.columns import follow, grouped, numbered
from ..model.document import GraphsDoc, ReplayDoc
from ..model.statistics import summarize
from ..model.trace import NONE, Bools, Ints, OpKind, Trace, narrow

SAME_GRAPH_SHARE: Final = 0.9
"""A large replay that shares this much of another's kernel names is of the same graph, records lost in both."""

LARGE_GRAPH: Final = 32
"""Ops from which sharing most kernel names is evidence: below, pieces of one layer look alike by nature."""

LEAST_SHARE: Final = 0.5
"""A replay with a smaller share of another's ops is under-recorded only where the file itself was cut."""


@dataclass(frozen=True, eq=False)
class GraphReplays:
    """Every replay of the file (r of them, by their first GPU op) and every GPU op's place in one."""

    op_replay: Ints  # replay of each GPU op, NONE outside graphs
    ordinal: Ints  # position of each GPU op in its replay by start, NONE outside graphs
    launch_row: Ints  # [r] NONE where the launch is not in the file
    start_ns: Ints  # [r] start of the first op
    end_ns: Ints  # [r] end of the last op
    op_count: Ints  # [r]
    graph: Ints  # [r] index into graph_names; also holds the replays that lack ops of their graph
    under_recorded: Bools  # [r] fewer ops than other replays of its graph
    cut: Bools  # [r] for that the recording began or ended inside it
    graph_names: tuple[str, ...]  # 'graph 0', … by first replay, or the file's own graph id

    def __len__(self) -> int:
        return len(self.op_count)

    @property
    def differing(self) -> Ints:
        """Graphs whose replays have differing op counts, cut ones left out: records were lost."""
        graph, op_count = self.graph[~self.cut], self.op_count[~self.cut]
        most = np.zeros(len(self.graph_names), dtype=np.int64)
        np.maximum.at(most, graph, op_count)
        least = most.copy()
        np.minimum.at(least, graph, op_count)
        return np.flatnonzero(most != least)

    def to_doc(self, trace: Trace) -> GraphsDoc:
        """The ``graphs`` object of the report."""
        ops = trace.gpu_ops
        with_launch = ops.is_kernel & (ops.launch_row != NONE)
        in_graphs = ops.is_kernel & trace.in_graph()
        count, ns = int(with_launch.sum()), int(ops.dur_ns[with_launch].sum())
        return GraphsDoc(
            coverage_by_count=int(in_graphs.sum()) / count if count else None,
            coverage_by_time=int(ops.dur_ns[in_graphs].sum()) / ns if ns else None,
            kernels_in_graphs=int(in_graphs.sum()),
            kernels_with_launch=count,
            replays=[
                self._replay_doc(trace, name, replays)
                for name, replays in zip(self.graph_names, grouped(self.graph, len(self.graph_names)), strict=True)
            ],
        )

    def _replay_doc(self, trace: Trace, graph: str, replays: Ints) -> ReplayDoc:
        whole = replays[~self.cut[replays]]
        counts, launches = self.op_count[whole if len(whole) else replays], self.launch_row[replays]
        launches = launches[launches != NONE]
        return ReplayDoc(
            graph=graph,
            count=len(replays),
            ops_min=int(counts.min()),
            ops_median=float(np.median(counts)),
            ops_max=int(counts.max()),
            launch_overhead_ns=summarize(trace.launches.dur_ns[launches]) if len(launches) else None,
        )


def graph_replays(trace: Trace) -> GraphReplays:
    """One replay per graph launch, and per correlation id that several ops share without a launch in the file."""
    ops, launches = trace.gpu_ops, trace.launches
    rows = np.flatnonzero(ops.correlation != NONE)
    group = numbered(ops.process[rows], ops.correlation[rows])
    sizes = np.bincount(group)
    launch_of = np.full(len(sizes), NONE, dtype=np.int64)
    linked = ops.launch_row[rows] != NONE
    launch_of[group[linked]] = ops.launch_row[rows[linked]]
    is_replay = np.where(launch_of != NONE, follow(launches.is_graph, launch_of, absent=False), sizes >= 2)
    first = np.zeros(len(sizes), dtype=np.int64)
    first[group[::-1]] = rows[::-1]  # rows are by start, so the last write is the earliest op
    groups = np.flatnonzero(is_replay)
    groups = groups[np.argsort(ops.start_ns[first[groups]], kind="stable")]  # as replays are numbered
    number = np.full(len(sizes), NONE, dtype=np.int64)
    number[groups] = np.arange(len(groups))
    rows, replay = rows[is_replay[group]], number[group[is_replay[group]]]
    in_order = np.argsort(replay, kind="stable")  # by replay, then by start
    rows, replay, op_count = rows[in_order], replay[in_order], np.bincount(replay)
    begin = np.cumsum(op_count) - op_count
    op_replay = np.full(len(ops), NONE, dtype=np.int64)
    ordinal = np.full(len(ops), NONE, dtype=np.int64)
    op_replay[rows] = replay
    ordinal[rows] = np.arange(len(rows)) - begin[replay]

    launch_row = launch_of[groups]
    members = np.split(rows, begin)[1:]
    edges = _at_edges(trace, op_replay, len(members))
    edges = edges[0] | _of_the_start(trace, rows[begin], launch_row), edges[1]
    graph, under_recorded, labels = _graphs(trace, edges[0] | edges[1], members, launch_row)
    return GraphReplays(
        op_replay=narrow(op_replay),
        ordinal=narrow(ordinal),
        launch_row=launch_row,
        start_ns=ops.start_ns[rows[begin]],
        end_ns=np.maximum.reduceat(ops.end_ns[rows], begin) if len(begin) else begin,
        op_count=op_count,
        graph=graph,
        under_recorded=under_recorded,
        cut=_cut(trace, members, graph, under_recorded, edges, launch_row),
        graph_names=labels,
    )


def _signatures(trace: Trace, members: Sequence[Ints]) -> tuple[Ints, list[Ints], list[bool]]:
    """A signature number per replay, each signature's names, and whether it branches; of copies and sets the kind
    alone counts, as CUPTI names the kinds of memory of some replays and not of others.

    Branches of one graph on several streams may start in a different order from replay to replay: such a replay has
    its names ordered by themselves.
    """
    ops = trace.gpu_ops
    known: dict[bytes, int] = {}
    sequences: list[Ints] = []
    branches: list[bool] = []
    result = np.empty(len(members), dtype=np.int64)
    for replay, its_ops in enumerate(members):
        kind = ops.kind[its_ops]
        names = np.where(kind == OpKind.KERNEL, ops.name[its_ops], -1 - kind)
        one_stream = (ops.stream[its_ops] == ops.stream[its_ops[0]]).all()
        names = names if one_stream else np.sort(names)
        result[replay] = known.setdefault(names.tobytes(), len(known))
        if len(known) > len(sequences):
            sequences.append(names)
            branches.append(not one_stream)
    return result, sequences, branches


def _graphs(
    trace: Trace, at_edge: Bools, members: Sequence[Ints], launch_row: Ints
) -> tuple[Ints, Bools, tuple[str, ...]]:
    """Graph of each replay, whether it lacks ops, and the graphs' names, in order of first replay."""
    heads = np.array([its_ops[0] for its_ops in members], dtype=np.int64)
    ids = trace.gpu_ops.graph[heads]
    if len(ids) and (ids != NONE).all():
        graph_ids = numbered(trace.gpu_ops.process[heads], ids)  # each process counts its graphs
        distinct, first, graph = np.unique(graph_ids, return_index=True, return_inverse=True)
        by_first = np.argsort(first)
        names = tuple(f"graph {ids[first[i]]}" for i in by_first)
        graph = np.argsort(by_first)[graph.reshape(-1)]
        sizes = np.fromiter(map(len, members), np.int64, len(members))
        most = np.zeros(len(distinct), dtype=np.int64)
        np.maximum.at(most, graph, sizes)
        return graph, sizes < most[graph], names
    signature, sequences, branches = _signatures(trace, members)
    owner = _attach_under_recorded(trace, at_edge, launch_row, signature, sequences, branches)
    distinct, first, graph = np.unique(owner, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[graph.reshape(-1)], owner != signature, tuple(f"graph {i}" for i in range(len(distinct)))


def _attach_under_recorded(
    trace: Trace,
    at_edge: Bools,
    launch_row: Ints,
    signature: Ints,
    sequences: Sequence[Ints],
    branches: Sequence[bool],
) -> Ints:
    """Signature of the whole graph that each replay is of: its own, or the one that it lacks ops of.

    Kineto files have no graph ids, and the pieces of a piecewise graph are often a part of one another. So a replay
    is called under-recorded only if its names are a part of the longer one's, and it is either cut off by the edge
    of the recording or stands where the longer one stands: between the same launches, and not more often.
    """
    owner = signature.copy()
    counts = np.bincount(signature, minlength=len(sequences))
    of_edge, at_edge = at_edge, at_edge & ((launch_row == NONE) | (not trace.complete))
    before, after = _neighbours(trace, launch_row, signature)
    by_length = sorted(range(len(sequences)), key=lambda s: (-len(sequences[s]), s))
    names = [frozenset(sequence.tolist()) for sequence in sequences]
    of_signature = np.split(np.argsort(signature, kind="stable"), np.cumsum(counts)[:-1])
    parts: dict[int, list[int]] = {}  # of each whole graph: the signatures that may be of it
    wholes: dict[int, list[int]] = defaultdict(list)  # of each signature: the whole graphs that it may be of
    shorter = 0
    for short in by_length:
        replays = of_signature[short]
        for long in wholes[short]:
            small = len(sequences[short]) < LEAST_SHARE * len(sequences[long])
            alike = [s for s in parts[long] if len(sequences[s]) >= LEAST_SHARE * len(sequences[long])]
            lone = of_edge[replays] & (counts[short] == 1)
            in_slot = _in_slot(replays, owner == long, [long, *alike], before, after, lone)
            found = at_edge[replays] | (in_slot & (counts[short] <= counts[long]) & (lone | (not small)))
            owner[replays[found]] = long
            replays = replays[~found]
        if len(replays):
            while shorter < len(by_length) and len(sequences[by_length[shorter]]) >= len(sequences[short]):
                shorter += 1
            of_names = [s for s in by_length[shorter:] if names[s] <= names[short]]
            in_order = np.sort if branches[short] else np.asarray  # what lost a whole branch has none
            parts[short] = [s for s in of_names if _is_part(in_order(sequences[s]), sequences[short])]
            for its_part in parts[short]:
                wholes[its_part].append(short)
    return owner


def _is_part(short: Ints, long: Ints) -> bool:
    """Whether the shorter sequence, of names that all occur in the longer, can be that one with some records lost."""
    if len(short) >= len(long):
        return False
    remaining = iter(long.tolist())
    if all(name in remaining for name in short.tolist()):
        return True
    if len(long) < LARGE_GRAPH:
        return False
    shared = (Counter(short.tolist()) & Counter(long.tolist())).total()
    return shared >= SAME_GRAPH_SHARE * len(long)


def _at_edges(trace: Trace, op_replay: Ints, replays: int) -> tuple[Bools, Bools]:
    """Replays inside which the recording may have begun, and those inside which it may have ended.

    They hold the first, or last, op of a stream and ran together with what ran first, or last, on the device.
    """
    ops = trace.gpu_ops
    found = np.zeros((2, replays + 1), np.bool_)  # the last entry is that of NONE
    stream = numbered(ops.device, ops.stream)
    first, last = (np.zeros(int(stream.max(initial=NONE)) + 1, np.int64) for _ in range(2))
    rows = np.arange(len(ops))
    last[stream], first[stream[::-1]] = rows, rows[::-1]  # rows are by start, and the last write stays
    for device in trace.devices:
        firsts, lasts = (edge[ops.device[edge] == device] for edge in (first, last))
        begin, end = firsts[np.argmin(ops.start_ns[firsts])], lasts[np.argmax(ops.end_ns[lasts])]
        reached = ops.end_ns[_together(op_replay, begin)].max()
        since = ops.start_ns[_together(op_replay, end)].min()
        found[0, op_replay[firsts[ops.start_ns[firsts] <= reached]]] = True
        found[1, op_replay[lasts[ops.end_ns[lasts] >= since]]] = True
    return found[0, :-1], found[1, :-1]


def _together(op_replay: Ints, row: int) -> Ints:
    """The op's replay, or the op by itself."""
    return np.array([row]) if op_replay[row] == NONE else np.flatnonzero(op_replay == op_replay[row])


def _of_the_start(trace: Trace, heads: Ints, launch_row: Ints) -> Bools:
    """Replays without a launch in the file that begin before every op of their device that has one."""
    ops = trace.gpu_ops
    found: Bools = launch_row == NONE
    for device in trace.devices:
        linked = ops.start_ns[(ops.device == device) & (ops.launch_row != NONE)]
        found &= (ops.device[heads] != device) | (ops.start_ns[heads] < linked.min(initial=np.iinfo(np.int64).min))
    return found


def _cut(
    trace: Trace,
    members: Sequence[Ints],
    graph: Ints,
    under_recorded: Bools,
    edges: tuple[Bools, Bools],
    launch_row: Ints,
) -> Bools:
    """Replays at an edge that lack what a cut takes away: the first ops at the start, the last ones at the end.

    Those without a launch in the file, and on several streams, whose order differs from replay to replay, lack any.
    """
    names = trace.gpu_ops.name
    cut = under_recorded & (edges[0] | edges[1])
    for replay in np.flatnonzero(cut & (launch_row != NONE)).tolist():
        its_ops = members[replay]
        if len(np.unique(trace.gpu_ops.stream[its_ops])) > 1:
            continue
        alike = np.flatnonzero(graph == graph[replay]).tolist()
        whole, own = names[max((members[other] for other in alike), key=len)], names[its_ops]
        at_start = edges[0][replay] and (whole[-len(own) :] == own).all()
        cut[replay] = at_start or (edges[1][replay] and (whole[: len(own)] == own).all())
    return cut


def _neighbours(trace: Trace, launch_row: Ints, signature: Ints) -> tuple[Ints, Ints]:
    """What was launched right before and after each replay: a signature, or -2 - first op's name; NONE if unknown."""
    tokens = -2 - trace.gpu_ops.name[trace.first_ops()]
    linked = launch_row != NONE
    tokens[launch_row[linked]] = signature[linked]
    padded = np.concatenate([[NONE], tokens, [NONE]])
    rows = launch_row[linked]
    before, after = (np.full(len(signature), NONE, dtype=np.int64) for _ in range(2))
    before[linked], after[linked] = padded[rows], padded[rows + 2]
    return before, after


def _in_slot(replays: Ints, wholes: Bools, alike: Sequence[int], before: Ints, after: Ints, at_edge: Bools) -> Bools:
    """Replays whose neighbours are also neighbours of whole replays, taking signatures that are alike for one.

    A side without a neighbour fits if the other is a replay of those, back to back, or at the edge of the recording.
    """
    fits = np.ones(len(replays), dtype=np.bool_)
    merged = [np.where(np.isin(side, alike), alike[0], side) for side in (before, after)]
    for side, other in (merged, merged[::-1]):
        here, there = side[replays], other[replays]
        known = (here == alike[0]) | ((here != NONE) & np.isin(here, side[wholes]))
        fits &= known | ((here == NONE) & ((there == alike[0]) | at_edge))
    return fits
