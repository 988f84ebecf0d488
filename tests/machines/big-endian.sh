# A recording for the machine that runs the tests, as text.
ping -f -q 127.0.0.1 >/dev/null &
check record perf record -e cpu-clock -F 99 -a -g --no-buildid --no-buildid-cache -o /tmp/perf.data sleep 3
check version perf --version
check recording sh -c "gzip -c /tmp/perf.data | base64"
