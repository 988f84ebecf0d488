# The clients are behind the second card, in a namespace of its own.
network
perpacket-agent serve web --root /www --listen 10.0.0.1:8080 --cpus 0 --quiet &
server=$!
sleep 2
$inside perpacket-agent load http http://10.0.0.1:8080/file --connections 16 --duration 1000 --cpus 1 --quiet >/dev/null &
sleep 3
check probe perpacket-agent probe --format json
# The files that `perpacket doctor --root` reads.
for file in /proc/stat /proc/uptime /proc/net/softnet_stat /sys/class/net/eth0/mtu /sys/devices/system/cpu/online \
    /sys/devices/system/node/online /sys/devices/system/node/node*/cpulist; do
    mkdir -p /tmp/tree/${file%/*}
    cat $file >/tmp/tree/$file
done
check tree sh -c "tar -cz -C /tmp/tree . | base64"
check profile perpacket-agent profile --pid $server --duration 6 --format json
