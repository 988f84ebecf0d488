# Each worker of nginx has a listening socket of its own; a hash of the connection chooses one.
sed -i 's/backlog=4096/& reuseport/' /etc/nginx.conf
