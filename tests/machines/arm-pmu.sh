server
for events in best counters misses clock; do
    check "profile-$events" perpacket-agent profile --pid $server --duration 6 --events $events --format json
done
