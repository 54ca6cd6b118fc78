"""Steps as `launchscope predict` counts them, in short: the file that fixtures/captures/predicted/counted.json is.

    python benchmarks/predicted_counts.py fixtures/models/llama_1b.py fixtures/models/llama_1b.py@256 … > counted.json

`ops` holds each different operator once, `order` the step as indices into it. @N is a batch size, @shape=… a setting.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import msgspec
from launchscope.tracer.count.count import count_step
from launchscope.tracer.target.options import ProfileOptions, parse_settings


def of_target(spec: str) -> dict[str, object]:
    target, _, more = spec.partition("@")
    settings = parse_settings([more] if "=" in more else [])
    batch_size = 1 if settings or not more else int(more)
    step = count_step(ProfileOptions(target=target, batch_size=batch_size, settings=settings), lambda _: None)
    different = list(dict.fromkeys(step.ops))
    return {
        "target": Path(target).name,
        "batch_size": step.target.batch_size,
        "settings": step.target.settings,
        "torch": step.torch,
        "transformers": metadata.version("transformers"),
        "ops": msgspec.to_builtins(different),
        "order": list(map({op: index for index, op in enumerate(different)}.get, step.ops)),
    }


if __name__ == "__main__":
    print("[\n" + ",\n".join(json.dumps(of_target(spec), separators=(",", ":")) for spec in sys.argv[1:]) + "\n]")
