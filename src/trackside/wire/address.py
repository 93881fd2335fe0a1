"""The controller's address: all a process needs to reach it and be let in. A secret; it never goes to argv or logs."""

import base64
import binascii

import msgspec

from trackside.errors import AddressError

_PREFIX = "trackside1:"


class ControllerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run's controller listens, and the keys to its link."""

    run: str
    hosts: list[str]
    """Host names or IP addresses to try, in order."""
    port: int
    server_key: str
    """CURVE public key of the controller, Z85."""
    client_public: str
    client_secret: str
    pid: int | None = None
    """The controller's process id, on its own host."""
    machine_id: str | None = None

    def __repr__(self) -> str:
        return f"ControllerAddress(run={self.run!r}, hosts={self.hosts!r}, port={self.port}, keys hidden)"


def format_address(address: ControllerAddress) -> str:
    """Return the address as the one word that `TRACKSIDE_CONTROLLER` holds."""
    return _PREFIX + base64.urlsafe_b64encode(msgspec.msgpack.encode(address)).decode("ascii").rstrip("=")


def parse_address(text: str) -> ControllerAddress:
    """Read what `format_address` wrote.

    Raises:
        AddressError: anything else; the message never repeats the secret.
    """
    text = text.strip()
    if not text.startswith(_PREFIX):
        raise AddressError(
            f"TRACKSIDE_CONTROLLER does not begin with {_PREFIX!r} ({len(text)} characters); "
            "take it whole from what `trackside controller` printed, from the same version of trackside"
        )
    payload = text[len(_PREFIX) :]
    try:
        raw = base64.b64decode(payload + "=" * (-len(payload) % 4), altchars=b"-_", validate=True)
        address = msgspec.msgpack.decode(raw, type=ControllerAddress)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise AddressError(
            f"TRACKSIDE_CONTROLLER is damaged ({len(text)} characters); take it whole from what "
            "`trackside controller` printed"
        ) from error
    if not 0 < address.port < 65536 or not address.hosts or len(address.server_key) != 40:
        raise AddressError("TRACKSIDE_CONTROLLER holds no usable host, port or key; start a new controller")
    return address
