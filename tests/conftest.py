"""Fixtures for the whole suite."""

import os

# Windows of `human` mode open in memory; must be set before pygame is imported.
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
