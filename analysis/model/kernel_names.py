"""Kernel names short enough to read and long enough to tell apart.

    void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<…>>(…)
    → vectorized_elementwise_kernel<CUDAFunctor_add<bf16>>

Four levels of detail; names that collide at one level are told at the next.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from .units import brief, printable

_TYPES: Final = {
    "BFloat16": "bf16", "__nv_bfloat16": "bf16", "__hip_bfloat16": "bf16", "bfloat16_t": "bf16",
    "Half": "fp16", "__half": "fp16", "half_t": "fp16", "float": "fp32", "double": "fp64",
}  # fmt: skip

_SHORT_TYPES: Final = frozenset(_TYPES.values())

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

_LAMBDA: Final = re.compile(r"\{lambda\(([^){]+)\)")

_LITERAL: Final = re.compile(r"^(\(.*\))?-?\d\w*$|^(true|false)$")
_LITERAL_STARTS: Final = (*"(-0123456789", "true", "false")


_LONGEST: Final = 20_000
"""Characters of a name that is read; kernels of cutlass reach 5,000."""

_DEEPEST: Final = 64
"""Template arguments within one another; of the recordings in fixtures/ the deepest kernel has 5."""

_BRACKETS: Final = re.compile(r"[<>(){}\[\],]")
_BEFORE_A_TYPE: Final = re.compile(r"\s*(?:void\s+)?")
_NOT_OF_A_TYPE: Final = re.compile(r"\b(const|volatile)\b|[&*]")


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


class _Type:
    """A function or type in a name: ``void a::f<B, 3>::g(int)`` has head ``a::f``, tail ``::g`` and rest ``(int)``.

    Places are in the text that is parsed; None while it has no such part.
    """

    head_end: int | None = None
    tail_begin: int = 0  # behind the template arguments
    rest_begin: int | None = None
    tail: str = ""
    open_brackets: int = 0  # other than those of template arguments
    lambda_types: Sequence[_Type] = ()  # of the last lambda in the rest
    literal: str | None = None  # the whole of '3', 'true', '(Kind)1'
    base: str = ""  # the name without namespace and arguments

    def __init__(self, text: str, at: int) -> None:
        self.begin = at
        self.arguments: list[_Type] = []
        if text.startswith((" ", "void"), at) and (found := _BEFORE_A_TYPE.match(text, at)):
            self.begin = found.end()

    def begin_arguments(self, text: str, at: int) -> None:
        if self.head_end is None:
            self.head_end = at
        else:
            self.tail += text[self.tail_begin : at]  # A<B>::C<…>

    def end(self, text: str, end: int) -> None:
        """Take from the text what is known once the type has ended."""
        outer_end = end if self.rest_begin is None else self.rest_begin
        if self.head_end is None:
            head, tail = text[self.begin : outer_end], ""
            if head.startswith(_LITERAL_STARTS) and _LITERAL.match(whole := text[self.begin : end].rstrip()):
                self.literal = whole
        else:
            head, tail = text[self.begin : self.head_end], self.tail + text[self.tail_begin : outer_end].rstrip()
        if self.rest_begin is not None:
            head, tail = head.removesuffix("::operator"), tail.removesuffix("::operator")
            if parameters := _LAMBDA.findall(text, self.rest_begin, end):
                of_lambda = _parsed(f"_<{parameters[-1]}>")
                self.lambda_types = () if of_lambda is None else of_lambda.arguments
        self.base = _base(head, tail)


def _write(name: str, detail: Detail) -> str:
    if detail is Detail.WHOLE:
        return name
    parsed = _parsed(name)
    if parsed is None:
        return name if len(name) <= _LONGEST else brief(name)
    return _written(parsed, detail) or name


def _written(parsed: _Type, detail: Detail) -> str:
    """A function or type with its template arguments."""
    base = parsed.base
    arguments = _arguments(parsed.arguments, detail) if parsed.arguments else []
    if len(arguments) == 1 and detail < Detail.EVERY_ARGUMENT and _WRAPPER.search(base):
        return arguments[0]
    if detail >= Detail.LAMBDA_TYPES and parsed.lambda_types:
        base += f"({', '.join(_written(each, Detail.SUBJECT) for each in parsed.lambda_types)})"
    return f"{base}<{', '.join(arguments)}>" if arguments else base


def _arguments(arguments: Sequence[_Type], detail: Detail) -> list[str]:
    if detail >= Detail.EVERY_ARGUMENT:
        return [_written(each, detail) if each.literal is None else each.literal for each in arguments]
    written = [_written(each, detail) for each in arguments if each.literal is None]
    written = [text for text in dict.fromkeys(written) if not _PLUMBING.match(text)]
    if len(written) < 2:
        return written
    # `MulFunctor<fp32>` says its type itself: of bare types only the first helps, and indices never do
    types = [text for text in written if text in _SHORT_TYPES]
    subjects = [text for text in written if text not in _SHORT_TYPES and text not in _INDICES]
    return types[:1] + subjects if subjects else types or written[:1]


def _parsed(name: str) -> _Type | None:
    """The function that a name is about, in one pass; None for a name longer or deeper than compilers write."""
    if len(name) > _LONGEST:
        return None
    text = name.replace("(anonymous namespace)::", "")
    open_types = [_Type(text, 0)]
    for found in _BRACKETS.finditer(text):
        bracket, at, inner = found[0], found.start(), open_types[-1]
        in_brackets = inner.open_brackets > 0 or inner.rest_begin is not None
        if bracket in "([{" or (bracket == "<" and (in_brackets or at == inner.begin)):
            inner.open_brackets += 1
            if bracket == "(" and inner.rest_begin is None and at > inner.begin:
                inner.rest_begin = at
        elif bracket in ")]}" or (bracket == ">" and inner.open_brackets):
            inner.open_brackets = max(inner.open_brackets - 1, 0)
        elif bracket == "<":
            inner.begin_arguments(text, at)
            open_types.append(_Type(text, at + 1))
            if len(open_types) > _DEEPEST:
                return None
        elif not inner.open_brackets and len(open_types) > 1:  # an argument ends
            _end_argument(open_types, text, at)
            if bracket == ",":
                open_types.append(_Type(text, at + 1))
    while len(open_types) > 1:  # the name was cut
        _end_argument(open_types, text, len(text))
    function = open_types[0]  # a kernel's parameters repeat its template arguments
    function.end(text, len(text) if function.rest_begin is None else function.rest_begin)
    return function


def _end_argument(open_types: list[_Type], text: str, at: int) -> None:
    argument, outer = open_types.pop(), open_types[-1]
    outer.tail_begin = at + 1
    if argument.begin < at:
        argument.end(text, at)
        outer.arguments.append(argument)


def _base(head: str, tail: str) -> str:
    """The name with its tail, as of ``Policy<…>::Type``; the namespace stays where the name is generic."""
    scopes = [head] if head.isidentifier() else _NOT_OF_A_TYPE.sub("", head).strip().split("::")
    base = scopes[-1].strip() + (tail if tail.startswith("::") else "")
    if len(scopes) > 1 and _GENERIC.match(base):
        base = f"{scopes[-2]}::{base}"
    return _TYPES.get(base, base)
