"""Kafka's protocol: messages, codecs, error codes and the catalogue of APIs.

`protocol-specs/` defines the wire format. `schema` makes Construct trees from it, and `generator`
compiles the trees into the modules that a running broker imports.
"""
