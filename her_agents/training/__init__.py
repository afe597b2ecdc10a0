"""A training run: its configuration, loop, folder and logs."""
