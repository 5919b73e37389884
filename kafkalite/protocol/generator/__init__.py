"""The generator of everything below `_generated/`, of `api_keys.py` and of `error_codes.py`.

`python -m kafkalite.protocol.generator` rewrites these files from `protocol-specs/`. A running
broker imports nothing of this package.
"""
