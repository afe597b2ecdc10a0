"""Integrations whose library is missing name the extra to install."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("extra", "library"),
    [("sb3", "stable_baselines3"), ("rllib", "ray.rllib"), ("torchrl", "tensordict"), ("lerobot", "lerobot")],
)
def test_an_error_names_the_extra(extra, library, monkeypatch):
    name = f"her_wrappers.integrations.{extra}"
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ImportError, match=rf"pip install \"her-toolkit\[{extra}\]"):
        importlib.import_module(name)
