"""Kernel names short enough to read and long enough to tell apart.

    void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<…>>(…)
    → vectorized_elementwise_kernel<CUDAFunctor_add<bf16>>

Four levels of detail; names that collide at one level are told at the next.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from ..units import brief, printable

_TYPES: Final = {
    "BFloat16": "bf16", "__nv_bfloat16": "bf16", "__hip_bfloat16": "bf16", "bfloat16_t": "bf16",
    "Half": "fp16", "__half": "fp16", "half_t": "fp16", "float": "fp32", "double": "fp64",
}  # fmt: skip

# Names that say nothing without the namespace that holds them.
_GENERIC: Final = re.compile(r"^(kernel|Kernel|run|operator|main|device_kernel|kentry)\d*$")

# Template arguments that never tell two kernels apart for a reader: how they index and load.
_PLUMBING: Final = re.compile(
    r"^(array|Array|TrivialOffsetCalculator|OffsetCalculator|LoadWithCast|LoadWithoutCast|StoreWithCast|"
    r"StoreWithoutCast|integral_constant|index_sequence)\b"
)

# Wrappers whose argument is the kernel's real subject.
_WRAPPER: Final = re.compile(
    r"^(gpu_kernel_impl|gpu_kernel_impl_nocast|gpu_index_kernel|func_wrapper_t|cutlass\w*::Kernel\d?)$"
)

_INDICES: Final = frozenset({"int", "unsigned int", "long", "unsigned long", "long long", "bool"})

_LAMBDA: Final = re.compile(r"\{lambda\(([^)]+)\)")

_LITERAL: Final = re.compile(r"^(\(.*\))?-?\d\w*$|^(true|false)$")


_LONGEST_PARSED: Final = 20_000
"""Characters; kernels of cutlass reach 5,000. Parsing goes over a name once for each level of its nesting."""


class Detail(IntEnum):
    """How much of a name is told."""

    SUBJECT = 0  # the kernel and what it computes: numbers, plumbing and repeated types left out
    LAMBDA_TYPES = 1  # and the types of the lambda that does the work
    EVERY_ARGUMENT = 2  # every template argument, namespaces left out
    WHOLE = 3


def short_names(names: Iterable[str]) -> dict[str, str]:
    """A short printable name for each name; different names stay different."""
    distinct = list(dict.fromkeys(names))
    short: dict[str, str] = {}
    pending = distinct
    for detail in Detail:
        groups: dict[str, list[str]] = defaultdict(list)
        for name in pending:
            groups[printable(_write(name, detail))].append(name)
        taken = set(short.values())
        pending = []
        for text, members in groups.items():
            if len(members) == 1 and text not in taken:
                short[members[0]] = text
            else:
                pending += members
    for ordinal, name in enumerate(pending, 1):  # alike once made printable
        short[name] = f"{printable(name)} #{ordinal}"
    return {name: short[name] for name in distinct}


def _write(name: str, detail: Detail) -> str:
    if detail is Detail.WHOLE:
        return name
    if len(name) > _LONGEST_PARSED:
        return brief(name)
    function, _ = _outer(name)  # a kernel's parameters repeat its template arguments
    try:
        return _argument(function, detail) or name
    except RecursionError:  # nested deeper than any compiler writes
        return name


def _argument(text: str, detail: Detail) -> str:
    """A function or type with its template arguments."""
    outer, rest = _outer(text)
    base, arguments = _split(outer)
    written = _arguments(arguments, detail)
    if _WRAPPER.search(base) and len(written) == 1 and detail < Detail.EVERY_ARGUMENT:
        return written[0]
    if detail >= Detail.LAMBDA_TYPES and (parameters := _LAMBDA.findall(rest)):
        base += f"({', '.join(_argument(p, Detail.SUBJECT) for p in _split_arguments(parameters[-1]))})"
    return f"{base}<{', '.join(written)}>" if written else base


def _arguments(arguments: list[str], detail: Detail) -> list[str]:
    if detail >= Detail.EVERY_ARGUMENT:
        return [a if _LITERAL.match(a) else _argument(a, detail) for a in arguments]
    written = list(dict.fromkeys(_argument(a, detail) for a in arguments if not _LITERAL.match(a)))
    written = [text for text in written if not _PLUMBING.match(text)]
    # `MulFunctor<fp32>` says its type itself: of bare types only the first helps, and indices never do
    types = [text for text in written if text in _TYPES.values()]
    subjects = [text for text in written if text not in _TYPES.values() and text not in _INDICES]
    return types[:1] + subjects if subjects else types or written[:1]


def _outer(name: str) -> tuple[str, str]:
    """The function or type that a name is about, and the rest: ``void f<T>(int)`` → ``f<T>``, ``(int)``."""
    text = name.replace("(anonymous namespace)::", "").removeprefix("void ").strip()
    depth = 0
    for index, char in enumerate(text):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif char == "(" and depth == 0 and index > 0:
            return text[:index].removesuffix("::operator"), text[index:]
    return text, ""


def _split(text: str) -> tuple[str, list[str]]:
    """``at::f<A, B<C>>`` → ``f`` and its template arguments; the namespace stays where the name is generic."""
    start = text.find("<")
    head = text if start <= 0 else text[:start]
    arguments = [] if start <= 0 else _split_arguments(text[start + 1 : text.rfind(">")] if ">" in text else "")
    scopes = re.sub(r"\b(const|volatile)\b|[&*]", "", head).strip().split("::")
    base = scopes[-1].strip()
    if start > 0 and ">::" in text and not text.endswith(">"):
        base += text[text.rfind(">::") + 1 :]  # Policy<…>::Type
    if _GENERIC.match(base) and len(scopes) > 1:
        base = f"{scopes[-2]}::{base}"
    return _TYPES.get(base, base), arguments


def _split_arguments(text: str) -> list[str]:
    arguments: list[str] = []
    depth = start = 0
    for index, char in enumerate(text):
        if char in "<({[":
            depth += 1
        elif char in ">)}]":
            depth -= 1
        elif char == "," and depth == 0:
            arguments.append(text[start:index].strip())
            start = index + 1
    return [argument for argument in [*arguments, text[start:].strip()] if argument]
