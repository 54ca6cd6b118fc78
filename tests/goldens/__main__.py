"""``python -m tests.goldens FOLDER`` writes every text into FOLDER, to be compared with another commit's;
``--keep`` keeps their digests as what is right.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .outputs import digest, everything
from .test_goldens import KEPT

if __name__ == "__main__":
    target = sys.argv[1]
    kept: dict[str, dict[str, str]] = {}
    for name, make in everything().items():
        texts = make()
        kept[name] = {output: digest(text) for output, text in texts.items()}
        for output, text in texts.items():
            if target != "--keep":
                file = Path(target, name, f"{output}.txt")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
    if target == "--keep":
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
