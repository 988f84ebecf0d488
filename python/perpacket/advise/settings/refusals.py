"""The kernel's refusals of settings, as errors of perpacket."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from perpacket.advise.settings import Gone
from perpacket.errors import ConfigurationError, MachineLacks

MISSING_DEVICE = (errno.ENODEV, errno.ENXIO)
FORBIDDEN = (errno.EPERM, errno.EACCES, errno.EROFS)
WRONG = (errno.EINVAL, errno.ERANGE)


@contextmanager
def refusals(title: str, value: str = "") -> Iterator[None]:
    """Turn the kernel's error into one that names the setting and the value."""
    from pyroute2.ethtool.ioctl import EthtoolError
    from pyroute2.netlink.exceptions import NetlinkError

    what = f"{title} = {value}" if value else title
    try:
        yield
    except (OSError, NetlinkError, EthtoolError) as error:
        number = getattr(error, "errno", None) or getattr(error, "code", None)
        if number in MISSING_DEVICE:
            raise Gone(f"{title}: the interface no longer exists") from error
        if number in FORBIDDEN:
            raise MachineLacks(
                f"{what}: the kernel does not permit it ({reason(error)})", "run as root"
            ) from error
        if number in WRONG and value:
            raise ConfigurationError(
                f"{what}: the kernel does not accept the value ({reason(error)})", value=value
            ) from error
        raise MachineLacks(f"{title}: {reason(error)}") from error


def reason(error: Exception) -> str:
    """The kernel's message for an error."""
    if type(error).__name__ == "NotSupportedError":
        return "the driver does not support it"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
