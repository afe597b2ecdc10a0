"""Runnable programs to copy from. Run them as modules: ``python -m examples.quickstart``."""
