"""Scenarios run by clients of a real kafkalite broker, with the results that audits must find."""
