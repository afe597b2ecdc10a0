"""Settings of SDL, torch and hypothesis for all tests."""

import os

from hypothesis import settings

# Windows of `human` mode open in memory; must be set before pygame is imported.
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")

# On networks so small more threads only wait for each other; must be set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("suite", deadline=None)  # how long an example takes depends on the machine
settings.load_profile("suite")
