"""Example programs to copy. Run them as modules: ``python -m examples.quickstart``."""
