. /card.sh
# Every way of waiting for events, and what this kernel does not have.
check load-http $inside perpacket-agent load http http://10.0.0.1:8080/file --connections 4 --duration 2 --format json
check serve-uring perpacket-agent serve web --root /www --listen 10.0.0.1:8081 --architecture uring --quiet
perpacket-agent load stream --listen 10.0.0.1:9000 --quiet &
sleep 1
check load-stream $inside perpacket-agent load stream --to 10.0.0.1:9000 --duration 2 --format json
