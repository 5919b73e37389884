"""The generator of the files below `_generated/`, of `api_keys.py` and of `error_codes.py`.

`python -m kafkalite.protocol.generator` rewrites these files from `protocol-specs/`. A running
broker does not import this package.
"""
