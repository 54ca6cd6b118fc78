"""Names that engines and people give to serving steps and their phases; docs/serving.md tells where they come from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ..model.document import PHASES

# Whole names, behind an NVTX domain if there is one. vLLM's stand in vllm/v1/worker/gpu_model_runner.py,
# vllm/v1/core/sched/scheduler.py and vllm/v1/engine/llm_engine.py (VLLM_CUSTOM_SCOPES_FOR_PROFILING=1), SGLang's in
# python/sglang/srt/managers/scheduler.py and model_executor/model_runner.py.
_ENGINES: Final[tuple[tuple[str, str], ...]] = (
    ("schedule", r"schedule: \w+|llm_engine step: (?:process_outputs|abort_requests|record_stats)"),
    ("prepare", r"gpu_model_runner: preprocess"),
    ("forward", r"gpu_model_runner: (?:forward|postprocess)"),  # postprocess: hidden states to logits
    ("sample", r"gpu_model_runner: sample"),
    ("copy_back", r"gpu_model_runner: (?:bookkeep|(?:Async\w*)?ModelRunnerOutput|AsyncGPUModelRunnerOutput)"),
    ("copy_back", r"gpu_model_runner: set_async_sampled_token_ids"),
    ("other", r"gpu_model_runner: (?:draft|eplb)"),
    ("copy_back", r"Bookkeep"),  # of 2025, beside Preprocess, Forward and Sample, which are people's words, too
    ("other", r"Draft|EPLB"),
    ("schedule", r"scheduler\.(?:recv_requests|process_input_requests|get_next_batch_to_run)"),
    ("forward", r"step\[[A-Z_]+ bs=.*"),
    ("sample", r"scheduler\.launch_batch_sample_if_needed"),
    ("copy_back", r"scheduler\.process_batch_result"),
)

# What people write, without digits, arguments and case; also vllm-ascend's 'prepare input' and 'sample_token'.
_PEOPLE: Final[tuple[tuple[str, str], ...]] = (
    ("schedule", r"schedul(?:e|er|ing)(?: step| batch| requests)?"),
    ("prepare", r"(?:input )?prep(?:are|aration)?|prepare (?:the )?(?:inputs?|batch)|preprocess|copy (?:inputs? )?in"),
    ("forward", r"(?:model |decode |prefill )?forward(?: pass)?|(?:run|execute) model"),
    ("sample", r"sampl(?:e|er|ing)(?: (?:tokens?|logits))?"),
    ("copy_back", r"copy (?:tokens? |results? |outputs? )?(?:back|out|to (?:the )?(?:cpu|host))|read ?back"),
    ("copy_back", r"wait|wait for (?:the )?(?:gpu|tokens?)|sync(?:hroni[sz]e)?"),
)

# Functions, where Python frames were recorded: of vLLM's model runner, and of SGLang's scheduler and model runner.
_VLLM_RUNNER: Final = r"vllm/v1/worker/gpu_model_runner\.py\(\d+\): "
_SGLANG_SCHEDULER: Final = r"sglang/srt/managers/scheduler\.py\(\d+\): "
_SGLANG_RUNNER: Final = r"sglang/srt/model_executor/model_runner\.py\(\d+\): "
_FRAMES: Final[tuple[tuple[str, str], ...]] = (
    ("prepare", _VLLM_RUNNER + "(?:_update_states|_prepare_inputs|_determine_batch_execution_and_padding)"),
    ("prepare", _VLLM_RUNNER + "(?:_get_slot_mappings|_build_attention_metadata|_preprocess)"),
    ("forward", _VLLM_RUNNER + "_model_forward"),
    ("forward", r"vllm/model_executor/models/\w+\.py\(\d+\): compute_logits"),
    ("sample", _VLLM_RUNNER + "_sample"),
    ("copy_back", _VLLM_RUNNER + "_bookkeeping_sync"),
    ("schedule", _SGLANG_SCHEDULER + "(?:recv_requests|process_input_requests|get_next_batch_to_run)"),
    ("forward", _SGLANG_RUNNER + "forward"),
    ("sample", _SGLANG_RUNNER + "sample"),
    ("copy_back", _SGLANG_SCHEDULER + "process_batch_result"),
)

ENGINE_STEPS: Final = tuple(
    re.compile("(?:^|:)" + name)  # behind an NVTX domain, if any
    for name in (r"scheduler\.run_batch$", r"step\[", r"execute_(?:\d+_)?(?:context|new)_\d")
)
"""What SGLang and vLLM write around each forward pass, the first that a file has. Sampling follows outside of the
last two: https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/model_executor/model_runner.py (forward),
https://github.com/vllm-project/vllm/blob/main/vllm/v1/worker/gpu_worker.py (annotate_profile)."""

_DOMAIN: Final = r"(?:\w+:)?"
_ENGINE_NAMES: Final = tuple((phase, re.compile(_DOMAIN + pattern)) for phase, pattern in _ENGINES)
_FRAMES_NAMES: Final = tuple((phase, re.compile(r"(?:.*/)?" + pattern)) for phase, pattern in _FRAMES)
_PEOPLES_NAMES: Final = tuple((phase, re.compile(pattern)) for phase, pattern in _PEOPLE)

_VLLM: Final = re.compile(r"gpu_model_runner: |execute_(?:\d+_)?(?:context|new)_\d|llm_engine step: ")
_SGLANG: Final = re.compile(r"scheduler\.run_batch$|step\[[A-Z_]+ bs=")

DECODE, PREFILL, MIXED = "decode", "prefill", "mixed"
KINDS: Final = (PREFILL, MIXED, DECODE)

_VLLM_STEP: Final = re.compile(r"execute_(?:\d+_)?context_(\d+)(?:\(.*?\))?_generation_(\d+)")
_VLLM_OLD: Final = re.compile(r"execute_new_(\d+)_cached_(\d+)")
"""Before vLLM 0.13. A cached request may still be in its prompt, so only one with new requests alone is told."""
_SGLANG_STEP: Final = re.compile(r"step\[([A-Z_]+) bs=")
_SGLANG_KINDS: Final = {
    "EXTEND": PREFILL,
    "SPLIT_PREFILL": PREFILL,
    "DLLM_EXTEND": PREFILL,
    "MIXED": MIXED,
    "DECODE": DECODE,
    "TARGET_VERIFY": DECODE,
}
_WORD: Final = re.compile(r"(?<![a-z])(prefill|decode)(?![a-z])", re.IGNORECASE)

assert {phase for phase, _ in _ENGINES + _FRAMES + _PEOPLE} <= set(PHASES)


def phase_of(name: str) -> str | None:
    """The phase that an annotation names, or None."""
    for phase, pattern in _ENGINE_NAMES:
        if pattern.fullmatch(name):
            return phase
    plain = " ".join(re.sub(r"\([^()]*\)|\d+|[_\-.:#/]", " ", name).lower().split())
    return next((phase for phase, pattern in _PEOPLES_NAMES if pattern.fullmatch(plain)), None)


def phase_of_frame(name: str) -> str | None:
    """The phase that a Python frame of an engine's is, or None."""
    if "vllm/" not in name and "sglang/" not in name:
        return None
    return next((phase for phase, pattern in _FRAMES_NAMES if pattern.fullmatch(name)), None)


def engine_of(names: Iterable[str]) -> str | None:
    """The engine that wrote annotations of these names, or None."""
    names = list(names)
    if any(_VLLM.search(name) for name in names):
        return "vLLM"
    return "SGLang" if any(_SGLANG.search(name) for name in names) else None


def kind_of(name: str) -> str | None:
    """The kind that an annotation names, or None."""
    if found := _VLLM_STEP.search(name):
        prompts, generating = int(found[1]), int(found[2])
        return (MIXED if generating else PREFILL) if prompts else (DECODE if generating else None)
    if found := _VLLM_OLD.search(name):
        new, cached = int(found[1]), int(found[2])
        return (MIXED if cached else PREFILL) if new else None
    if found := _SGLANG_STEP.search(name):
        return _SGLANG_KINDS.get(found[1])
    words = {word.lower() for word in _WORD.findall(name)}
    return words.pop() if len(words) == 1 else None
