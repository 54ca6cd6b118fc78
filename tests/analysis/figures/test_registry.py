"""The registry has every figure of a trace's report, once, and the report nothing of a trace that is not in it."""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from typing import get_args, get_type_hints

import pytest
from launchscope.analysis import figures
from launchscope.analysis.facts.context import Context
from launchscope.analysis.figures.figure import Figure
from launchscope.analysis.figures.registry import FIGURES, values
from launchscope.analysis.model.document import TraceDoc

from ...cases import NAMED_CASES

ABOUT_THE_RECORDING = {"name", "mode", "trace_pass", "repeat", "rank", "source", "headline_device", "withheld"}
"""What a report says of a trace that is no figure; ``serving_reason`` says why one is not there."""


def test_every_figure_of_the_report_is_in_it_and_the_other_way_round() -> None:
    names = [figure.name for figure in FIGURES]
    assert max(Counter(names).values()) == 1
    fields = set(TraceDoc.__struct_fields__) - ABOUT_THE_RECORDING - {"figures", "serving_reason"}
    assert {figure.name for figure in FIGURES if figure.is_of_contract} == fields


def test_every_figure_that_a_module_makes_is_in_it() -> None:
    found = pkgutil.walk_packages(figures.__path__, f"{figures.__name__}.")
    modules = [importlib.import_module(each.name) for each in found]
    made = {id(each) for module in modules for each in vars(module).values() if isinstance(each, Figure)}
    assert made == {id(figure) for figure in FIGURES}


def test_documents_are_what_the_report_holds() -> None:
    hints = get_type_hints(TraceDoc)
    for figure in FIGURES:
        if figure.is_of_contract:
            hint = hints[figure.name]
            assert figure.document in (hint, *get_args(hint)), figure.name


@pytest.mark.parametrize("name", NAMED_CASES)
def test_a_figure_is_computed_once(name: str) -> None:
    context = Context(NAMED_CASES[name]().build())
    for figure in FIGURES:
        assert figure.of(context) is figure.of(context)


def test_numbers_of_figures_have_names_of_their_own() -> None:
    names = [value.name for _, value in values()]
    assert len(set(names)) == len(names)


def test_words_are_one_line() -> None:
    for figure in FIGURES:
        assert figure.words
        assert "\n" not in figure.words
