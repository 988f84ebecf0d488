# Deferred interrupts: after two polls without frames, a timer of 200 us polls instead of an interrupt.
echo 2 >/sys/class/net/eth0/napi_defer_hard_irqs
echo 200000 >/sys/class/net/eth0/gro_flush_timeout
