# The clients are behind the second card, in a namespace of its own.
network
check queues ls /sys/class/net/eth0/queues
perpacket-agent serve web --root /www --listen 10.0.0.1:8080 --cpus 0-2 --quiet &
server=$!
sleep 2
$inside perpacket-agent load http http://10.0.0.1:8080/file --connections 64 --duration 1000 --cpus 3 --quiet >/dev/null &
load=$!
sleep 5
check interrupts-before cat /proc/interrupts
check profile perpacket-agent profile --pid $server --duration 8 --events clock --format json
check interrupts-after cat /proc/interrupts
kill $load $server

# Packets from many addresses, which the card divides among its queues. CPU 3 sends them. No socket waits for
# them, so the processor that receives one also sends an answer.
ip route add 10.0.0.0/16 via 10.0.0.2
echo 0 >/proc/sys/net/ipv4/icmp_ratelimit
for name in icmp_msgs_per_sec icmp_msgs_burst; do echo 100000 >/proc/sys/net/ipv4/$name; done
packets() { $inside sh -c "echo $2 >/proc/net/pktgen/$1"; }
packets kpktgend_3 "add_device eth1"
for setting in "count 0" "ratep 8000" "pkt_size 60" "dst 10.0.0.1" "dst_mac 52:54:00:00:00:01" \
    "src_min 10.0.1.1" "src_max 10.0.200.250" "flag IPSRC_RND" "udp_dst_min 9" "udp_dst_max 9"; do
    packets eth1 "$setting"
done
packets pgctrl start &
# bind QUEUE CPU: the processor of the interrupts of a receive queue and of its transmit queue.
bind() {
    for irq in $(sed -n "s/^ *\([0-9]*\):.* eth0-[rt]x-$1\$/\1/p" /proc/interrupts); do
        echo $2 >/proc/irq/$irq/smp_affinity_list
    done
}
for queue in 0 1 2 3; do bind $queue $queue; done
sleep 3
check profile-spread perpacket-agent profile --duration 5 --events clock --format json
check table-spread perpacket-agent profile --duration 5 --events clock --by cpu
for queue in 0 1 2; do bind $queue 0; done
sleep 1
check profile-pinned perpacket-agent profile --duration 5 --events clock --format json
check table-pinned perpacket-agent profile --duration 5 --events clock --by cpu
check machine perpacket-agent probe --root /
