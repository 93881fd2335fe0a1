"""The page and the HTTP interface of one run: read-only, relative, guarded.

Reads a `RunSource` and a `Hub`, and never anything else; asks nothing outside; changes nothing. It lives in the event loop
of whoever built it (the controller, or `trackside view`): no answer computes for longer than a few milliseconds there.
"""
