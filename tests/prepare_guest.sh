#!/bin/sh
# Installs QEMU, and boots and stores the guest of the emulated machine. If this fails, the tests that need
# it skip with the reason.
set -u

perpacket="$(dirname "$0")/../.venv/bin/perpacket"
install=""
command -v qemu-system-x86_64 >/dev/null && command -v busybox >/dev/null || install=--install
# shellcheck disable=SC2086  # the option is there or not
"$perpacket" emulate prepare $install --quiet >/dev/null ||
    echo "no emulated machine, so the tests that need one skip" >&2
