"""Training as a function: `examples.training.loop.train` of a `Config`, and what it stands on."""
