. /server.sh
# A recording for the machine that runs the tests, with the symbols of this kernel, as text.
check record perf record -e cpu-clock -F 499 -a -g --no-buildid --no-buildid-cache -o /tmp/perf.data sleep 4
check recording sh -c "gzip -c /tmp/perf.data | base64"
check symbols sh -c "gzip -c /proc/kallsyms | base64"
