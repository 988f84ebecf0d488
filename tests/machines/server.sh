server
check probe perpacket-agent probe --format json
check profile perpacket-agent profile --pid $server --duration 6 --format json
