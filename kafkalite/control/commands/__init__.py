"""The commands to a running broker, one module for each family. `command_table` finds them here."""
