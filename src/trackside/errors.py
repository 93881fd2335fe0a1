"""One tree of exceptions. A message says what happened, with which value, and what to do."""


class TracksideError(Exception):
    """Everything Trackside raises on purpose."""


class UsageError(TracksideError, ValueError):
    """A wrong argument, option or environment variable; raised before training starts."""


class ArgumentTypeError(TracksideError, TypeError):
    """An argument of a wrong type; raised before training starts."""


class AddressError(UsageError):
    """A controller address that cannot be read."""


class ProtocolError(TracksideError):
    """A frame that cannot be understood."""


class VersionMismatchError(ProtocolError):
    """The peer speaks another version of the wire protocol."""


class FrameTooLargeError(ProtocolError):
    """A frame is larger than the wire allows."""


class PortTakenError(TracksideError):
    """The wanted port has another holder."""


class StoreError(TracksideError):
    """A run folder cannot be written or read."""


class DiskSilentError(StoreError):
    """The disk of a run folder does not answer."""


class RunFolderError(StoreError):
    """A folder is not a run folder, or holds one of an unknown schema."""


class RunBusyError(RunFolderError):
    """A run folder has a controller already."""


class JournalCorruptError(StoreError):
    """A journal is damaged; what stood before the damage was recovered."""


class LaunchError(TracksideError):
    """The ranks could not be started."""
