. /card.sh
# Every part of the agent, and what this kernel does not have.
check load-http $inside perpacket-agent load http http://10.0.0.1:8080/file --connections 4 --duration 2 --format json
check serve-uring perpacket-agent serve web --root /www --listen 10.0.0.1:8081 --architecture uring --quiet
perpacket-agent load stream --listen 10.0.0.1:9000 --quiet &
sleep 1
check load-stream $inside perpacket-agent load stream --to 10.0.0.1:9000 --duration 2 --format json

perpacket-agent media synthesize --into /tmp/media --files 1 --duration 20s --quiet
chmod 755 /tmp /tmp/media
perpacket-agent serve media --root /tmp/media --listen 10.0.0.1:8554 --quiet &
sleep 2
check load-media $inside perpacket-agent load media rtsp://10.0.0.1:8554/stream-{}.ts --clients 2 --duration 3 --format json

perpacket-agent export --listen 127.0.0.1:9430 --duration 1 --quiet &
sleep 5
check export wget -q -O - http://127.0.0.1:9430/metrics

# Two namespaces, joined by the link. Then a router between veth devices.
for side in left right; do
    unshare -n sleep 100000 &
    eval "$side=/proc/$!/ns/net"
done
sleep 1
check link perpacket-agent link --left $left --right $right --left-address 10.9.0.1/24 --right-address 10.9.0.2/24 \
    --delay 5ms --duration 2 --format json
ip link add r0 type veth peer name a0
ip link add r1 type veth peer name b0
for name in r0 a0 r1 b0; do ip link set $name up; done
check route-live perpacket-agent route throughput --from a0 --next-hop r0 --to b0 --generator live --take-redirected r0 \
    --rates 100 --trial 1
check add-cost timeout 5 perpacket-agent add-cost --interface r0
