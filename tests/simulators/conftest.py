"""Tests of this folder need mjlab and Brax (requirements.txt), and are not collected without them."""

import importlib.util

import pytest

collect_ignore_glob = [] if all(map(importlib.util.find_spec, ("mjlab", "brax"))) else ["*.py"]


@pytest.fixture(autouse=True)
def few_threads():
    import torch  # noqa: PLC0415 - not before tests are collected

    torch.set_num_threads(1)
