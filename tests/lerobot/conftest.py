"""Tests of this folder need the package lerobot, and are not collected without it. Nothing is downloaded."""

import importlib.util
import os
import tempfile
import warnings

CACHE = tempfile.TemporaryDirectory()
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": CACHE.name}

collect_ignore_glob = ["*.py"]
if importlib.util.find_spec("lerobot"):
    collect_ignore_glob = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch

        # Operators of torchvision, which lerobot does not use, are missing with a torch of another version.
        register = torch.library.register_fake
        torch.library.register_fake = lambda *_, **__: lambda function: function
        import torchvision  # noqa: F401

        torch.library.register_fake = register
        import lerobot.datasets.lerobot_dataset  # noqa: F401
