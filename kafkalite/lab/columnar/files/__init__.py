"""Capture files: chunks, and the positions of the packets in them."""
