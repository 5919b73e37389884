"""Runtime of state machines that keep their state in a log: decide, append, replay."""
