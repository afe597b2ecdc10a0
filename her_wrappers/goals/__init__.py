"""Goal environments: goal functions, environments by name, wrappers, success flag, autoreset mode."""
