"""What runs inside a peer's own environment: one module per peer, which imports that peer and the standard library.

A module is started with `-m`, says its version, and then answers one JSON line per prompt (see `serve`). Nothing is
scored here.
"""
