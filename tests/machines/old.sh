. /card.sh
# Every way of waiting for events, and what this kernel does not have.
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

# Two namespaces, joined by the link.
for side in left right; do
    unshare -n sleep 100000 &
    eval "$side=/proc/$!/ns/net"
done
sleep 1
check link perpacket-agent link --left $left --right $right --left-address 10.9.0.1/24 --right-address 10.9.0.2/24 \
    --delay 5ms --duration 2 --format json
ip link add r0 type veth peer name a0
check add-cost timeout 5 perpacket-agent add-cost --interface r0
