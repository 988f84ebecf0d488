# RPS: a hash of the connection chooses the processor that runs the stack, among all of the server.
all=$(printf %x $(((1 << servers) - 1)))
for queue in /sys/class/net/eth0/queues/rx-*; do echo $all >$queue/rps_cpus; done
