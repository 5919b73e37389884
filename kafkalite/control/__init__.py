"""Control of a running broker: its clock, faults and history, by Python, HTTP or CLI."""
