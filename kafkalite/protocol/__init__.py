"""Bytes to messages and back; knows no broker.

The wire format is told once, in `protocol-specs/`; `schema` makes construct trees of it, and
`generate` compiles the trees into the modules a running broker imports.
"""
