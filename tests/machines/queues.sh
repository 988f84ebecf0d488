# The clients are behind the second card, in a namespace of its own.
network
check queues ls /sys/class/net/eth0/queues
perpacket-agent serve web --root /www --listen 10.0.0.1:8080 --cpus 0-2 --quiet &
server=$!
sleep 2
$inside perpacket-agent load http http://10.0.0.1:8080/file --connections 64 --duration 1000 --cpus 3 --quiet >/dev/null &
sleep 5
check interrupts-before cat /proc/interrupts
check profile perpacket-agent profile --pid $server --duration 8 --events clock --format json
check interrupts-after cat /proc/interrupts
