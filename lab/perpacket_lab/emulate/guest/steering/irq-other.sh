# One worker of nginx, on processor 0, and every interrupt of the card on the server's last processor.
sed -i 's/^worker_processes .*/worker_processes 1; worker_cpu_affinity 1;/' /etc/nginx.conf
last=$(printf %x $((1 << (servers - 1))))
for name in /proc/irq/*/eth0*; do [ ! -d $name ] || echo $last >${name%/*}/smp_affinity; done
