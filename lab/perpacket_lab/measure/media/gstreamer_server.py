"""GStreamer's RTSP server for one folder of transport streams: a peer for comparisons.

This is a separate program, because only the system's Python has GStreamer's bindings:

    gstreamer_server.py FOLDER [ADDRESS]    serve the folder's `.ts` files, print the URL on stderr
    gstreamer_server.py                     exit 0 if GStreamer has all that this needs

Every client has a pipeline of its own, which starts at the beginning of the file, as with
GStreamer's own test server. This program depends on nothing of perpacket, so it also runs on other
machines.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

ELEMENTS = ("filesrc", "tsparse", "rtpmp2tpay")
PIPELINE = "( filesrc location={file} ! tsparse set-timestamps=true ! rtpmp2tpay name=pay0 pt=33 )"


def check() -> None:
    """Exit with a message on standard error if an element of the pipeline is missing."""
    lacking = [name for name in ELEMENTS if Gst.ElementFactory.find(name) is None]
    if lacking:
        sys.exit(f"GStreamer has no element {' and no '.join(lacking)}")


def serve(folder: Path, address: str) -> None:
    """Serve every `.ts` file of the folder under its name, until a signal."""
    # A client has several descriptors.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = GstRtspServer.RTSPServer()
    server.set_address(address)
    server.set_service("0")
    for file in sorted(folder.glob("*.ts")):
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_launch(PIPELINE.format(file=file))
        server.get_mount_points().add_factory(f"/{file.name}", factory)
    server.attach(None)
    url = f"rtsp://{address}:{server.get_bound_port()}"
    print(f"listening on {url}", file=sys.stderr, flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    Gst.init(None)
    check()
    if len(sys.argv) > 1:
        serve(Path(sys.argv[1]), *(sys.argv[2:] or ["127.0.0.1"]))
