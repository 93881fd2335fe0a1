"""What the controller does with a run, each a sink: live page, report, terminal, Prometheus, yours.

Every call comes from the controller's event loop, must be cheap and must not block; a sink that raises is counted, named
once on the page and harms neither the others nor the run. Users add sinks through the entry-point group
`trackside.sinks`: a callable that takes a `RunSource` and returns a `Sink`.
"""

from trackside.sinks.protocol import RunSource, Sink

__all__ = ["RunSource", "Sink"]
