# Busy polling: a server that waits in epoll polls the card's queue itself, for up to 50 us.
echo 50 >/proc/sys/net/core/busy_poll
echo 50 >/proc/sys/net/core/busy_read
