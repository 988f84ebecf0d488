# RFS: RPS, with the processor on which the application last read the connection.
all=$(printf %x $(((1 << servers) - 1)))
echo 32768 >/proc/sys/net/core/rps_sock_flow_entries
for queue in /sys/class/net/eth0/queues/rx-*; do
    echo $all >$queue/rps_cpus
    echo 4096 >$queue/rps_flow_cnt
done
