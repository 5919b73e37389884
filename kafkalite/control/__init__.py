"""Driving a broker that runs: its clock, and its answers to "why", by Python, HTTP or the shell."""
