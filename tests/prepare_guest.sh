#!/bin/sh
# Installs QEMU, also for Arm and for each named architecture, and boots and stores the guest of the emulated
# machine. If this fails, the tests that need it skip with the reason.
set -u

perpacket="$(dirname "$0")/../.venv/bin/perpacket"
install=""
command -v qemu-system-x86_64 >/dev/null && command -v busybox >/dev/null || install=--install
# shellcheck disable=SC2086  # the option is there or not
"$perpacket" emulate prepare $install --quiet >/dev/null ||
    echo "no emulated machine, so the tests that need one skip" >&2

# All emulators have one version, because they share packages.
version=$(dpkg-query -W -f '${Version}' qemu-system-x86 2>/dev/null)
for name in arm "$@"; do
    command -v "qemu-system-$(echo "$name" | sed s/arm/aarch64/)" >/dev/null ||
        apt-get install -y -qq --no-install-recommends "qemu-system-$name=$version" >/dev/null 2>&1 ||
        echo "no QEMU for $name, so the tests of its machines skip" >&2
done
