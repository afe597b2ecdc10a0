"""Tests of this folder need mjlab and Brax (requirements.txt), and are not collected without them."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

collect_ignore_glob = [] if all(map(importlib.util.find_spec, ("mjlab", "brax"))) else ["*.py"]


# Compiled functions of JAX are kept; those of mjlab are too, in Warp's own cache.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(sys.prefix) / "jax_cache"))
# Tests call a function a few times only, so JAX compiles with few optimizations, which halves their time.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)


@pytest.fixture(autouse=True)
def few_threads():
    import torch  # noqa: PLC0415 - not before tests are collected

    torch.set_num_threads(1)
