"""`perpacket emulate kernels`: the kernels of Debian that can be emulated here."""

from __future__ import annotations

from perpacket.cli import output, progress
from perpacket.cli.options import Format, FormatOption, QuietOption


def kernels(output_format: FormatOption = Format.TABLE, quiet: QuietOption = False) -> None:
    """List the kernels of Debian's suites, with the value of --kernel for each.

    The first use downloads the package lists of the suites into the cache folder; `perpacket
    emulate prepare --kernel debian:VERSION` downloads them again.
    """
    from perpacket_lab.emulate import debian_kernels

    progress.note("reading the package lists of Debian's suites ...", quiet)
    offers = debian_kernels.offered(lambda lack: progress.note(f"note: {lack}", quiet))
    if output_format is Format.JSON:
        output.write_json(
            [
                {
                    "kernel": f"{debian_kernels.SCHEME}{each.version}",
                    "suite": each.suite,
                    "stored": each.is_stored,
                }
                for each in offers
            ]
        )
        return
    rows = [
        (
            f"{debian_kernels.SCHEME}{each.version}",
            each.suite,
            "stored" if each.is_stored else "",
        )
        for each in offers
    ]
    output.write_table("kernels that can be emulated", ("--kernel", "suite", "cache"), rows)
