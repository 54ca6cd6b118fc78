"""Many generated recordings by hand: ``PYTHONPATH=. python -m tests.generated TRACES [FIRST]``."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict

from .judge import kind_of, wrong

SHOWN = 5
"""Seeds told of each kind."""


def main(traces: int, first: int = 0) -> None:
    """Counts per kind of damage, and the first seeds that are wrong."""
    made, seeds = Counter[str](), defaultdict[str, list[int]](list)
    said: dict[int, list[str]] = {}
    for seed in range(first, first + traces):
        made[kind_of(seed)] += 1
        if found := wrong(seed):
            seeds[kind_of(seed)].append(seed)
            said[seed] = found
    for kind, count in made.items():
        print(f"{kind}: {len(seeds[kind])} of {count} wrong")
        for seed in seeds[kind][:SHOWN]:
            print(f"  seed {seed}: {'; '.join(said[seed])}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
