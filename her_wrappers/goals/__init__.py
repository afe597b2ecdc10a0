"""The goal interface: functions, environments by name, wrappers, success flag, autoreset mode."""
