"""The subcommands of ``her``, one file each: plain functions, which `her_wrappers.cli` registers."""
