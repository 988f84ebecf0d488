# XPS: each processor sends on the queue with its number. If there are fewer queues, they are shared.
for queue in /sys/class/net/eth0/queues/tx-*; do
    mask=0 processor=${queue##*-}
    while [ $processor -lt $servers ]; do
        mask=$((mask | 1 << processor)) processor=$((processor + queues))
    done
    printf %x $mask >$queue/xps_cpus
done
