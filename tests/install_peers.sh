#!/bin/sh
# The servers and clients of others that some tests talk to or compare with, the browser that reads
# reports, and the monitoring system that scrapes. Installs what is missing where it is root and has Debian's package manager; tests
# skip, with the reason, whatever is missing after that. Starts no service.
set -u

# QEMU, a kernel and a booted guest by the product's own step. Tests of the emulated machine skip
# where it fails.
perpacket="$(dirname "$0")/../.venv/bin/perpacket"
if [ -x "$perpacket" ]; then
    install=""
    command -v qemu-system-x86_64 >/dev/null && command -v busybox >/dev/null || install=--install
    # shellcheck disable=SC2086  # the option is there or not
    "$perpacket" emulate prepare $install --quiet >/dev/null ||
        echo "no emulated machine, so the tests that need one skip" >&2
fi

missing=""
for pair in nginx:nginx-light wrk:wrk ab:apache2-utils sshd:openssh-server ip:iproute2 apache2:apache2-bin \
    ffmpeg:ffmpeg bird:bird2 valgrind:valgrind busybox:busybox-static zstd:zstd gst-launch-1.0:gstreamer1.0-tools chromium:chromium chromedriver:chromium-driver public-inbox-init:public-inbox \
    prometheus:prometheus perf:linux-perf; do
    program=${pair%%:*}
    command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || missing="$missing ${pair#*:}"
done
# Plugins and bindings have no program of their own to look for.
case $missing in
*gstreamer*)
    missing="$missing gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad"
    missing="$missing gir1.2-gst-rtsp-server-1.0 python3-gi"
    ;;
esac
case $missing in
*public-inbox*)
    missing="$missing apache2-bin libapache2-mod-perl2 libplack-perl libsearch-xapian-perl"
    missing="$missing media-types"
    ;;
esac
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed, so the tests that need them skip:$missing" >&2
    exit 0
fi

# Packages of servers start them; this file, where nobody has one yet, says that they must not.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # the list is words
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >/dev/null 2>&1 ||
    echo "could not be installed, so the tests that need them skip:$missing" >&2
exit 0
