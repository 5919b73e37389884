"""The stand-in: a broker that answers clients from a capture."""
