"""On two GPUs: the tensor-parallel sample computes what one GPU does, up to the order of its sums."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(400),
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]

SCRIPT = """
import os, sys, torch
from launchscope.fixtures.models import llama_1b_tp
torch.set_grad_enabled(False)
torch.backends.cuda.matmul.allow_tf32 = False
rank = int(os.environ.get("LOCAL_RANK", "0"))
torch.cuda.set_device(rank)
logits = llama_1b_tp.build(2, "cuda", getattr(torch, sys.argv[1])).step()
torch.save(logits.float().cpu(), f"{sys.argv[2]}/{os.environ.get('WORLD_SIZE', '1')}-{rank}.pt")
"""
WITHOUT_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_two_gpus_compute_what_one_does(dtype: str, tolerance: float, tmp_path: Path) -> None:
    script = tmp_path / "step.py"
    script.write_text(SCRIPT)
    for launcher in ([], ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]):
        command = [sys.executable, *launcher, str(script), dtype, str(tmp_path)]
        subprocess.run(command, check=True, timeout=180, env=os.environ | WITHOUT_MULTICAST)
    one, first, second = (torch.load(tmp_path / f"{name}.pt") for name in ("1-0", "2-0", "2-1"))
    assert torch.equal(first, second)
    error = ((first - one).norm() / one.norm()).item()
    print(f"{dtype}: ‖error‖ ÷ ‖logits of one GPU‖ = {error:.2e}")
    assert error < tolerance
