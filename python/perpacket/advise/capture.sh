#!/bin/sh
# Collects what `perpacket advise` reads into one file: sh capture.sh [SECONDS] > web7.case
# Nothing is installed and nothing is changed. As root the file also has stacks and the drivers' counters. It has no
# addresses, no names of hosts or users, and no arguments of programs: only names of functions, programs and interfaces.
set -u
seconds=${1:-10}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
case=$folder/case
PATH=$PATH:/usr/sbin:/sbin
has() { command -v "$1" > /dev/null 2>&1; }
say() { echo "$*" >&2; }

keep() { # folder, files of the kernel: copies of them below the folder
  to=$1; shift
  for file; do
    [ -r "$file" ] && mkdir -p "$to${file%/*}" && cat "$file" > "$to$file" 2> /dev/null
  done
}

counters() { # folder
  keep "$1" /proc/uptime /proc/stat /proc/interrupts /proc/net/softnet_stat /proc/net/snmp /proc/net/netstat /proc/net/dev \
    /proc/net/stat/nf_conntrack
  for path in /sys/class/net/*; do
    has ethtool && ethtool -S "${path##*/}" > "$1/ethtool-S-${path##*/}" 2> /dev/null
  done
  has tc && tc -s qdisc > "$1/tc-s-qdisc" 2> /dev/null
  return 0
}

settings() {
  for path in /sys/class/net/*; do
    interface=${path##*/}
    keep "$case" "$path"/napi_defer_hard_irqs "$path"/gro_flush_timeout "$path"/threaded "$path"/device/numa_node \
      "$path"/queues/rx-*/rps_cpus "$path"/queues/rx-*/rps_flow_cnt "$path"/queues/tx-*/xps_cpus
    for letter in k l g c; do
      has ethtool && ethtool -$letter "$interface" > "$case/ethtool-$letter-$interface" 2> /dev/null
    done
  done
  keep "$case" /proc/sys/kernel/osrelease /sys/devices/system/node/node*/cpulist \
    /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq \
    /sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq
  sysctl -a 2> /dev/null | grep -E '^net\.(core|ipv4|netfilter)\.' | grep -v -E 'key|secret|_local_ports' > "$case/sysctl"
  has ip && ip -d link | grep -v 'link/' | sed -E 's/(remote|local|peer|group|alias) [^ ]+//g' > "$case/ip-d-link"
  has ss && ss -tinH 2> /dev/null | grep '^[[:space:]]' > "$case/ss-tin"
  for save in iptables-save iptables-legacy-save ip6tables-save ip6tables-legacy-save; do # the count, and no rule
    has $save && $save 2> /dev/null | awk '/^-A/ && ++count[$2] > most { most = count[$2] }
      END { if (most) print "rules in the longest chain: " most }' > "$case/$save"
  done
  has lscpu && lscpu | grep '^CPU(s)' > "$case/lscpu"
  return 0
}

stacks() { # Stacks of all processors while the window passes, as text: a recording would have the host's name.
  if has perf && perf record -a -g -F 99 -e cpu-clock -o "$folder/perf.data" -- sleep "$seconds" > /dev/null 2>&1; then
    perf script -i "$folder/perf.data" -F comm,pid,tid,cpu,time,event,period,ip,sym,dso 2> /dev/null |
      sed -E 's/^([[:space:]]+)[0-9a-f]+ /\10 /; s/\(\/[^)]*\//(/' > "$case/stacks" # addresses of user code may be data
  else
    say "no stacks: perf is missing or not permitted; only counters and settings are stored"
    sleep "$seconds"
  fi
}

mkdir -p "$case/before"
echo '{"schema": "perpacket-case", "version": 1}' > "$case/manifest.json"
say "collecting for $seconds s ..."
counters "$case/before"
stacks
counters "$case"
settings
find "$case" -type f -size 0 -exec rm {} +
tar -cf - -C "$folder" case | gzip
