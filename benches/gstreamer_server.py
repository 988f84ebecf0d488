"""GStreamer's RTSP server for one folder of transport streams: a peer for comparisons.

Run it with the system's Python, which has the bindings: `gstreamer_server.py FOLDER`. It prints its
address on standard error. Clients of one file share nothing, as with GStreamer's own test server.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

PIPELINE = "( filesrc location={file} ! tsparse set-timestamps=true ! rtpmp2tpay name=pay0 pt=33 )"


def main(folder: Path) -> None:
    """Serve every `.ts` file of the folder under its name."""
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service("0")
    for file in sorted(folder.glob("*.ts")):
        factory = GstRtspServer.RTSPMediaFactory()
        factory.set_launch(PIPELINE.format(file=file))
        server.get_mount_points().add_factory(f"/{file.name}", factory)
    server.attach(None)
    print(f"listening on rtsp://127.0.0.1:{server.get_bound_port()}", file=sys.stderr, flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
