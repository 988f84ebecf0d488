#!/bin/sh
# Collects what `perpacket advise` reads into one file: sh capture.sh [SECONDS [PID]] > web7.case
# Nothing is installed and nothing is changed. As root the file also has stacks and the drivers' counters. It has no
# addresses, no names of hosts or users, and no arguments of programs: only names of functions, programs and interfaces.
# With PID, the network namespace is that of the process. `perpacket capture` adds its own program, a control group, and
# whether names are wanted.
set -u
seconds=${1:-10} pid=${2:-} agent=${3:-} cgroup=${4:-} names=${5:-}
case $seconds in *[!0-9.]* | '') echo "error: $seconds: expected a number of seconds" >&2; exit 2 ;; esac
[ -z "$pid" ] || [ -d "/proc/$pid" ] || { echo "error: there is no process $pid" >&2; exit 2; }
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'trap "" HUP INT TERM; exit 130' INT
trap 'trap "" HUP INT TERM; exit 143' HUP TERM
case=$folder/case
PATH=$PATH:/usr/sbin:/sbin
has() { command -v "$1" > /dev/null 2>&1; }
say() { echo "$*" >&2; }

inside() { # a command, in the network namespace
  if [ -n "$pid" ]; then nsenter -t "$pid" -n "$@"; else "$@"; fi
}

keep() { # folder, files of the kernel: copies of them below the folder
  to=$1; shift
  for file; do
    [ -r "$file" ] && mkdir -p "$to${file%/*}" && cat "$file" > "$to$file" 2> /dev/null
  done
}

counters() { # folder
  keep "$1" /proc/uptime /proc/stat /proc/interrupts /proc/softirqs
  for file in softnet_stat snmp netstat dev sockstat stat/nf_conntrack stat/arp_cache stat/ndisc_cache; do
    mkdir -p "$1/proc/net/stat" && cat "/proc/${pid:-self}/net/$file" > "$1/proc/net/$file" 2> /dev/null
  done
  for interface in $interfaces; do
    has ethtool && inside ethtool -S "$interface" > "$1/ethtool-S-$interface" 2> /dev/null
  done
  has tc && inside tc -s qdisc > "$1/tc-s-qdisc" 2> /dev/null
  return 0
}

bare() { # removes addresses from the output of ip and ss, unless names are wanted
  if [ -n "$names" ]; then cat; else
    grep -v -E 'link/|altname' | sed -E 's/(remote|local|peer|group|alias|link-netns) [^ ]+//g
      s/([0-9a-fA-F]{1,2}:){5,}[0-9a-fA-F]{1,2}//g; s/([0-9]{1,3}\.){3}[0-9]{1,3}//g'
  fi
}

settings() {
  for interface in $interfaces; do
    path=/sys/class/net/$interface
    keep "$case" "$path"/napi_defer_hard_irqs "$path"/gro_flush_timeout "$path"/threaded "$path"/device/numa_node \
      "$path"/queues/rx-*/rps_cpus "$path"/queues/rx-*/rps_flow_cnt "$path"/queues/tx-*/xps_cpus
    for letter in k l g c x; do
      has ethtool && inside ethtool -$letter "$interface" > "$case/ethtool-$letter-$interface" 2> /dev/null
    done
    has ethtool && inside ethtool -n "$interface" rx-flow-hash udp4 > "$case/ethtool-n-$interface" 2> /dev/null
    has ethtool && inside ethtool "$interface" 2> /dev/null | grep -E '^Settings|Speed' > "$case/ethtool-$interface"
  done
  for name in /proc/irq/*/*; do
    [ -d "$name" ] && keep "$case" "${name%/*}/smp_affinity_list"
  done
  keep "$case" /sys/devices/system/cpu/vulnerabilities/* /sys/devices/system/cpu/smt/active \
    /sys/devices/system/cpu/cpu*/topology/thread_siblings_list /sys/devices/system/cpu/cpu*/cache/index*/shared_cpu_list \
    /sys/devices/system/cpu/cpu*/cache/index*/level /sys/devices/system/cpu/cpu*/cache/index*/size \
    /sys/devices/system/clocksource/clocksource0/current_clocksource
  ls /sys/class/iommu > "$case/iommu" 2> /dev/null
  keep "$case" /proc/sys/kernel/osrelease /sys/devices/system/node/online /sys/devices/system/node/node*/cpulist \
    /sys/devices/system/cpu/online /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor \
    /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq /sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq \
    /sys/devices/system/cpu/cpu0/cpuidle/state*/name /sys/devices/system/cpu/cpu0/cpuidle/state*/latency \
    /sys/devices/system/cpu/cpu0/cpuidle/state*/time
  inside sysctl -a 2> /dev/null | grep -E '^net\.(core|ipv4|netfilter)\.' |
    grep -v -E 'key|secret|_local_ports|reserved' > "$case/sysctl"
  has ip && inside ip -d link | bare > "$case/ip-d-link"
  if has ss; then
    inside ss -tinH 2> /dev/null | grep -E "^[[:space:]]${names:+|.}" > "$case/ss-tin"
    inside ss -ltnH 2> /dev/null | awk -v names="$names" '{ if (!names) { sub(/.*:/, "*:", $4); $5 = "*:* " } print }' \
      > "$case/ss-ltn"
  fi
  for save in iptables-save iptables-legacy-save ip6tables-save ip6tables-legacy-save; do # numbers alone
    has $save && inside $save 2> /dev/null | awk '/^-A/ && ++count[$2] > most { most = count[$2] }
      END { if (most) print "rules in the longest chain: " most }' > "$case/$save"
  done
  has nft && inside nft list ruleset 2> /dev/null | awk '/^\tchain/ { count = 0 } /^\t\t/ && !/^\t\ttype/ && ++count > most \
    { most = count } END { if (most) print "rules in the longest chain: " most }' > "$case/nft"
  has lscpu && lscpu | grep -E '^CPU\(s\)|^NUMA node' > "$case/lscpu"
  has systemctl && systemctl status irqbalance 2> /dev/null | # its state alone
    grep -E -o 'irqbalance.service|Active: [a-z]+' | sed 's/^Active/  &/' > "$case/irqbalance"
  for text in 'nf_conntrack: table full' 'neighbou?r table overflow' 'TCP: out of memory' 'possible SYN flooding' \
    'hw csum failure' 'transmit queue [0-9]+ timed out'; do # these words alone
    dmesg 2> /dev/null | grep -o -i -E "$text" >> "$case/messages"
  done
  [ -n "$names" ] && uname -a > "$case/uname"
  return 0
}

stacks() { # Stacks of all processors while the window passes, as text: a recording would have the host's name.
  if [ -n "$agent" ] && "$agent" profile --duration "${seconds}s" --format json --quiet --folded "$folder/folded" \
    ${pid:+--pid "$pid"} ${cgroup:+--cgroup "$cgroup"} > "$folder/profile" 2> "$folder/error"; then
    sed -E 's/(\[|;)\/[^];]*\//\1/g' "$folder/folded" > "$case/stacks.folded" # no folders of programs
    sed -E 's/"\/[^"]*\//"/g' "$folder/profile" > "$case/profile.json"
  elif [ -n "$cgroup" ]; then
    cat "$folder/error" >&2
    exit 2
  elif has perf &&
    perf record -a -g -F 99 -e cpu-clock -o "$folder/perf.data" -- sleep "$seconds" > /dev/null 2>&1; then
    perf script -i "$folder/perf.data" -F comm,pid,tid,cpu,time,event,period,ip,sym,dso 2> /dev/null |
      sed -E 's/^([[:space:]]+)[0-9a-f]+ /\10 /; s/\(\/[^)]*\//(/' > "$case/stacks" # addresses of user code may be data
  else
    [ -s "$folder/error" ] && cat "$folder/error" >&2
    say "no stacks: perf is missing or not permitted; only counters and settings are stored"
    sleep "$seconds"
  fi
}

interfaces=$(inside ls /sys/class/net)
[ -n "$pid" ] && interfaces=$(inside ip -o link 2> /dev/null | sed -E 's/^[0-9]+: ([^:@]+).*/\1/')
mkdir -p "$case/before"
echo '{"schema": "perpacket-case", "version": 1}' > "$case/manifest.json"
say "collecting for $seconds s ..."
counters "$case/before"
stacks
counters "$case"
settings
find "$case" -type f -size 0 -exec rm {} +
tar -cf - -C "$folder" case | gzip
