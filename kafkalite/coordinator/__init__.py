"""How any machine lives on a log: decide, append, replay."""
