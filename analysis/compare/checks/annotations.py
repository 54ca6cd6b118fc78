"""A finished check as GitHub workflow commands: what does not hold stands beside the run, and in the code if it can.

The escapes are those of GitHub's toolkit (packages/core/src/command.ts): data ``%``, CR, LF; properties ``:`` and
``,`` too. https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from ...model.units import one_line
from ..check_document import HOLDS, INCONCLUSIVE, CheckDoc, FindingDoc, PartDoc
from . import words as check_words

MOST: Final = 10
"""GitHub shows so many errors and so many warnings of a step."""

LONGEST: Final = 1000  # characters of one part of a message: names of kernels reach 5,000

_FRAME: Final = re.compile(r"(?:^|[\s'\"(`])((?:[\w.+-]+/)*[\w.+-]+\.py)\((\d+)\): ")
"""A Python frame as Kineto writes it: ``model.py(42): forward``; a path from the root is none of the repository's."""


def render(doc: CheckDoc) -> str:
    """One line for each finding that does not hold, the gravest first, ten at most; nothing when all hold."""
    found = [
        (finding, part)
        for part in check_words.parts_in_order(doc)
        for finding in part.findings
        if finding.outcome != HOLDS
    ]
    found.sort(key=lambda each: check_words.gravity(each[0]))
    told = found if len(found) <= MOST else found[: MOST - 1]
    lines = [_annotation(finding, part) for finding, part in told]
    if len(told) < len(found):
        rest = f"{len(found) - len(told)} more limits don't hold: they are in the log and in the job's summary."
        lines.append(_command(_level(found[len(told)][0]), {"title": "launchscope"}, [rest]))
    return "".join(f"{line}\n" for line in lines)


def render_error(message: str) -> str:
    """What kept a check from being done, as one line."""
    return f"{_command('error', {'title': 'launchscope'}, [message])}\n"


def _annotation(finding: FindingDoc, part: PartDoc) -> str:
    properties = {**_place(finding.first_look), "title": f"launchscope, {check_words.where(part.current)}"}
    lines = [finding.message, *check_words.details(finding)]
    lines += [f"likely cause: {cause}" for cause in part.causes[:1]]
    return _command(_level(finding), properties, lines)


def _level(finding: FindingDoc) -> str:
    return "warning" if finding.outcome == INCONCLUSIVE else "error"


def _place(first_look: str | None) -> dict[str, str]:
    """File and line of the first Python frame that is named, where it may be a file of the repository."""
    frame = _FRAME.search(first_look or "")
    if frame is None or ".." in PurePosixPath(frame[1]).parts:
        return {}
    return {"file": frame[1], "line": frame[2]}


def _command(level: str, properties: dict[str, str], lines: list[str]) -> str:
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {told}::{_data(chr(10).join(_brief(line) for line in lines))}"


def _brief(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}…{text[-LONGEST // 2 :]}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(_brief(text)).replace(":", "%3A").replace(",", "%2C")
