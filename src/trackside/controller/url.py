"""The line that says where the page is."""

import socket

import msgspec

from trackside.controller.config import is_loopback_address


class PageAddress(msgspec.Struct, frozen=True):
    """Where a page listens."""

    bind: str
    port: int
    token: str | None = None

    def line(self, host: str | None = None) -> str:
        """The line for people.

        Args:
            host: of the controller; None: this machine's name.
        """
        host = host or socket.gethostname() or "localhost"
        if is_loopback_address(self.bind):
            return (
                f"  dashboard  http://localhost:{self.port}  bound on the controller's loopback; from elsewhere: "
                f"ssh -L {self.port}:localhost:{self.port} {host}"
            )
        return f"  dashboard  {self.url(host)}  open to the network: whoever has this line can read the run"

    def url(self, host: str | None = None) -> str:
        """The page's URL, with its token."""
        if is_loopback_address(self.bind):
            return f"http://localhost:{self.port}/"
        everywhere = self.bind in ("0.0.0.0", "::", "*")
        name = (host or socket.gethostname() or "localhost") if everywhere else self.bind
        name = f"[{name}]" if ":" in name else name
        return f"http://{name}:{self.port}/" + (f"?token={self.token}" if self.token else "")
