# The clients are behind the second card, in a namespace of its own.
network
perpacket-agent serve web --root /www --listen 10.0.0.1:8080 --cpus 0 --quiet &
server=$!
sleep 2
$inside perpacket-agent load http http://10.0.0.1:8080/file --connections 16 --duration 1000 --cpus 1 --quiet >/dev/null &
sleep 3
check probe perpacket-agent probe --format json
check nodes ls /sys/devices/system/node
check profile perpacket-agent profile --pid $server --duration 6 --format json
