"""Draws docs/report.svg, the README's picture, from the demo capture: python docs/picture.py"""

from __future__ import annotations

import io
import re
from pathlib import Path

import launchscope
from launchscope.analysis.stories import report_story
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
WIDTH = 100


def main() -> None:
    report = launchscope.load(ROOT / "fixtures" / "captures" / "llama_1b.zip")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print("$ launchscope profile fixtures/models/llama_1b.py --steps 5", style="bold", highlight=False)
    console.print(Text.from_ansi(report_story.render_terminal(report, width=WIDTH, color=True, verbose=False)))
    svg = console.export_svg(title="launchscope")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # fonts that a browser would fetch
    (ROOT / "docs" / "report.svg").write_text(svg)


if __name__ == "__main__":
    main()
