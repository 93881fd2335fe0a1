"""A picture of the model's graph as SVG, drawn here so that nobody has to install a program that lays out graphs.

`frontier` chooses what is shown, `layers` says where it goes, `svg` writes it down. Pure: a graph in, text out; bounded
whatever the graph is. May run in any thread.
"""

from trackside.sinks.picture.frontier import choose
from trackside.sinks.picture.layers import arrange
from trackside.sinks.picture.svg import write
from trackside.wire.documents import GraphDocument

__all__ = ["draw"]


def draw(graph: GraphDocument) -> str:
    """The graph as SVG text: a layered drawing of a recorded pass, an indented tree where none was recorded."""
    scene = choose(graph)
    return write(graph, scene, arrange(scene))
