#!/bin/sh
# Installs the programs of others that some tests need: servers and clients to compare with, a browser
# for reports, and a monitoring system. It needs root and Debian's package manager. If a program is still
# missing afterwards, the tests that need it skip with the reason. The script starts no service.
set -u

missing=""
for pair in nginx:nginx-light wrk:wrk ab:apache2-utils sshd:openssh-server ip:iproute2 apache2:apache2-bin haproxy:haproxy \
    ffmpeg:ffmpeg bird:bird2 valgrind:valgrind busybox:busybox-static zstd:zstd gst-launch-1.0:gstreamer1.0-tools chromium:chromium chromedriver:chromium-driver public-inbox-init:public-inbox \
    prometheus:prometheus perf:linux-perf redis-server:redis-server redis-benchmark:redis-tools nft:nftables ethtool:ethtool; do
    program=${pair%%:*}
    command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || missing="$missing ${pair#*:}"
done
# These plugins and bindings have no program that the loop above could find.
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

# Debian's packages of servers start them. This file forbids it. An existing file is not replaced.
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
