"""Training as a function: `examples.training.loop.train` of a `Config`, and what it stands on."""

try:
    import torch  # noqa: F401 - here, before all that needs it, so that its absence is told in one sentence
except ImportError as error:
    raise SystemExit('training needs torch; run: pip install "her-toolkit[examples]"') from error
