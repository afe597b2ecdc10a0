"""The subcommands of ``her``, one file each: plain functions, which `her_wrappers.cli` registers."""

import her_envs  # noqa: F401 - registers the bundled ids, for all commands
