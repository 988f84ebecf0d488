# One worker of nginx, on processor 0, and every interrupt of the card there too.
sed -i 's/^worker_processes .*/worker_processes 1; worker_cpu_affinity 1;/' /etc/nginx.conf
for name in /proc/irq/*/eth0*; do [ ! -d $name ] || echo 1 >${name%/*}/smp_affinity; done
