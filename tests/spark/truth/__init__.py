"""A generator that knows the truth: clients of a real kafkalite, and what they planted."""
