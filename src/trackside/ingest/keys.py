"""The CURVE keys of one run's link."""

import msgspec
import zmq


class LinkKeys(msgspec.Struct, frozen=True, kw_only=True):
    """One pair for the controller, one that all of the run's processes share; Z85 text. A secret."""

    server_public: str
    server_secret: str
    client_public: str
    client_secret: str

    def __repr__(self) -> str:
        return "LinkKeys(hidden)"


def make_keys() -> LinkKeys:
    """Fresh keys for a new run."""
    server_public, server_secret = zmq.curve_keypair()
    client_public, client_secret = zmq.curve_keypair()
    return LinkKeys(
        server_public=server_public.decode("ascii"),
        server_secret=server_secret.decode("ascii"),
        client_public=client_public.decode("ascii"),
        client_secret=client_secret.decode("ascii"),
    )
