#!/bin/bash
# lab.sh: hosts on one machine, for tests and for trying things out.
#
#   lab.sh up N            starts N hosts, lab1..labN, on one bridge
#   lab.sh exec I CMD...   runs CMD on host I, with its exit code
#   lab.sh pid I           prints the pid of the host's first process, as seen
#                          from this machine
#   lab.sh dir I           prints the folder of the host's files (hosts, log)
#   lab.sh fault cut I     drops all frames of host I, both ways, silently
#   lab.sh fault cut I J   drops frames from I to J only
#   lab.sh fault loss I P  drops P percent of the frames that host I sends
#   lab.sh fault slow I K  limits the traffic to host I to K kilobits per second
#   lab.sh fault heal      removes all faults
#   lab.sh kill I          ends host I with everything on it: peers get a FIN
#   lab.sh power I         cuts the link of host I, then ends it: peers get
#                          no packet
#   lab.sh boot I          starts a host again that has ended: the same name,
#                          addresses, MAC and files, a new boot_id
#   lab.sh freeze I        stops host I; its kernel still answers packets
#   lab.sh thaw I          continues it
#   lab.sh down            ends the lab; never fails, may be repeated
#
# A host has its own net, uts, pid and mount namespace, the addresses
# 10.77.0.I and fd77::I, the hostname labI, its own /etc/hosts that is
# bind-mounted as in a container (so a rename over it gives EBUSY), its own
# boot_id, and its own empty /tmp, /run and /dev/shm. It has no names of other
# hosts. Everything else is this machine's, including the project folder.
#
# Environment: LAB_NAME   name of the lab; several can run at once  (lab)
#              LAB_SHARE  paths under /tmp that hosts see, separated by ':'
#              LAB_IFACES interface names of the hosts, separated by spaces
#                         (eth0)
#              LAB_DOCKER 1: each host also has a docker0 with 172.17.0.1/16
#
# A host is frozen through its cgroup v2 if one can be made, otherwise by
# SIGSTOP to all its processes, which these could undo; `freeze` prints which of
# the two it used.
#
# Without root it works in a user namespace, if the kernel allows that.
set -u

name=${LAB_NAME:-lab}
root=${LAB_DIR:-${TMPDIR:-/tmp}/rollcall-lab.$EUID}/$name
subnet4=10.77.0
subnet6=fd77::
# nsenter's flags for the lab's user namespace, if there is one.
user_flags=()
[ "$EUID" = 0 ] || user_flags=(-U --preserve-credentials)

say() { echo "lab.sh: $*" >&2; }
die() { say "$*"; exit 1; }

# Sets `born` to the start time of a running process. Pid and start time together
# identify a process.
see_born() {
  local stat
  born=
  read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
  # shellcheck disable=SC2086
  set -- ${stat##*) }
  [ "$1" != Z ] || return 1
  born=${20}
}

# Ends the process that a pid file names, if it still exists.
end_of() {
  local pid at
  read -r pid at 2>/dev/null <"$1" || return 0
  see_born "$pid" && [ "$born" = "$at" ] && kill -9 "$pid" 2>/dev/null
  return 0
}

write_pid() {
  see_born "$1"
  echo "$1 $born" >"$2"
}

# Sets `host` to the pid of the first process of host $1.
find_host() {
  local at
  read -r host at 2>/dev/null <"$root/lab$1/pid" ||
    die "there is no host $1 in lab '$name'; lab.sh up N makes them"
  see_born "$host" && [ "$born" = "$at" ] ||
    die "host $1 of lab '$name' has ended"
}

# Prints the folder of our own cgroup v2; fails if there is none.
own_cgroup() {
  local fields mount path
  while read -r -a fields; do
    case " ${fields[*]} " in *" - cgroup2 "*) mount=${fields[4]} ;; esac
  done </proc/self/mountinfo
  path=$(sed -n 's/^0:://p' /proc/self/cgroup)
  [ -n "${mount:-}" ] && [ -d "$mount$path" ] && echo "${mount}${path%/}"
}

# Makes a cgroup for the lab, if that is allowed. Each host gets a cgroup in it.
make_cgroup() {
  local folder
  folder=$(own_cgroup) || return 0
  folder=$folder/rollcall-lab.$EUID.$name.$$
  mkdir "$folder" 2>/dev/null || return 0
  if [ -e "$folder/cgroup.freeze" ] && [ -e "$folder/cgroup.kill" ]; then
    echo "$folder" >"$root/cgroup"
  else
    rmdir "$folder"
  fi
}

# Moves this shell into the cgroup of host $1, if hosts have one.
enter_cgroup() {
  local folder
  read -r folder 2>/dev/null <"$root/cgroup" || return 0
  mkdir -p "$folder/lab$1" && echo "$BASHPID" >"$folder/lab$1/cgroup.procs"
}

# A process that has just been killed is still a member for a moment, so try
# again.
remove_cgroup() {
  local folder try
  read -r folder 2>/dev/null <"$root/cgroup" || return 0
  echo 1 >"$folder/cgroup.kill"
  for try in $(seq 1 200); do
    find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null
    [ -d "$folder" ] || return 0
    sleep 0.01
  done
  say "$folder still has processes"
}

in_switch() {
  local pid at
  read -r pid at <"$root/switch.pid"
  nsenter -t "$pid" "${user_flags[@]}" -n -- "$@"
}

# Runs as a host's first process, in its new namespaces but still with the old
# mounts. $1: I, $2: its folder, $3: the pipe to report on, $4...: shared paths.
become_host() {
  local i=$1 own=$2 ready=$3 outer rest path
  shift 3
  exec 9>"$ready"
  trap "echo failed $i >&9" EXIT
  # /proc is still this machine's, so it shows our pid as this machine sees it.
  read -r outer rest </proc/self/stat
  set -e
  hostname "lab$i"
  mount --bind "$own/hosts" /etc/hosts
  mount --bind "$own/resolv.conf" /etc/resolv.conf
  [ ! -e /etc/nsswitch.conf ] ||
    mount --bind "$own/nsswitch.conf" /etc/nsswitch.conf
  # A new /tmp. The shared paths are mounted into it before it hides them.
  mkdir -p "$own/tmp"
  mount -t tmpfs -o mode=1777 tmpfs "$own/tmp"
  for path in "$@"; do
    case $path in
      /tmp/*)
        mkdir -p "$own/tmp/${path#/tmp/}"
        mount --rbind "$path" "$own/tmp/${path#/tmp/}" ;;
    esac
  done
  exec 8<"$own/boot_id"
  mount --rbind "$own/tmp" /tmp
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -m 1777 /run/lock
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  mount -t proc proc /proc
  mount --bind /proc/self/fd/8 /proc/sys/kernel/random/boot_id
  exec 8<&-
  # /sys/class/net must show this host's interfaces.
  mount -t sysfs sysfs /sys
  ip link set lo up
  set +e
  trap - EXIT
  echo "$i $outer" >&9
  exec 9>&-
  # bash reaps orphans; sleep as the first process would leave zombies.
  while :; do sleep infinity & wait; done
}

start_switch() {
  local flags="--net --mount --fork --kill-child"
  [ "$EUID" = 0 ] || flags="--user --map-root-user $flags"
  # shellcheck disable=SC2086
  setsid unshare $flags bash -c \
    'ip link add br0 type bridge && ip link set br0 up &&
     read -r outer rest </proc/self/stat && echo "0 $outer" >"$1" &&
     exec sleep infinity' lab-switch "$root/ready" \
    </dev/null >"$root/switch.log" 2>&1 &
  local i pid
  read -r -t 10 i pid <&7 ||
    { sed 's/^/lab.sh: /' "$root/switch.log" >&2
      die "network namespaces are not allowed here (unshare --net failed)." \
          "Run as root, or in a container with --privileged."; }
  write_pid "$pid" "$root/switch.pid"
}

write_hosts() {
  printf '%s\n' "127.0.0.1 localhost" "127.0.1.1 lab$1.example lab$1" \
    "::1 localhost ip6-localhost ip6-loopback" "" \
    "# this machine's own lines, with	a tab and no end of line" \
    >"$2/hosts"
  printf '10.9.9.9 elsewhere' >>"$2/hosts"
  cp "$2/hosts" "$2/hosts.before"
}

start_host() {
  local i=$1 own=$root/lab$1 project switch at
  project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  read -r switch at <"$root/switch.pid"
  mkdir -p "$own"
  [ -e "$own/hosts" ] || write_hosts "$i" "$own"
  : >"$own/resolv.conf"
  # No DNS: only names in files can be resolved.
  { sed '/^hosts:/d' /etc/nsswitch.conf 2>/dev/null
    echo 'hosts: files'; } >"$own/nsswitch.conf"
  printf '%08x-0000-4000-8000-%012x\n' $$ "$i" >"$own/boot_id"
  (
    enter_cgroup "$i"
    exec setsid nsenter -t "$switch" "${user_flags[@]}" -- \
      unshare --net --uts --pid --mount --fork --kill-child \
      bash "$project/scripts/lab.sh" become-host "$i" "$own" "$root/ready" \
      "$project" ${LAB_SHARE:+$(tr ':' ' ' <<<"$LAB_SHARE")}
  ) </dev/null >"$own/log" 2>&1 7<&- &
}

# Runs `ip` in the network namespace of process $1, with the commands of the
# standard input.
ip_in() { nsenter -t "$1" "${user_flags[@]}" -n -- ip -batch -; }

# Gives host I its interface on the bridge.
connect_host() {
  local i=$1 iface hex
  find_host "$i"
  hex=$(printf %02x "$i")
  # shellcheck disable=SC2206
  local names=(${LAB_IFACES:-eth0})
  iface=${names[$(((i - 1) % ${#names[@]}))]}
  [ "${LAB_DOCKER:-0}" != 1 ] || ip_in "$host" <<<"\
link add docker0 type bridge
addr add 172.17.0.1/16 dev docker0
link set docker0 up" || die "host $i has no docker0"
  # A fixed MAC address: otherwise, after a host is started again, its peers
  # keep its old one.
  in_switch ip -batch - <<<"\
link add p$i type veth peer name $iface address 02:00:00:4d:00:$hex netns $host
link set p$i master br0 up" || die "host $i has no network"
  ip_in "$host" <<<"\
addr add $subnet4.$i/24 dev $iface
addr add $subnet6$hex/64 dev $iface nodad
link set $iface up
route add default via $subnet4.254" || die "host $i has no network"
}

# The kernel has one neighbour table for all namespaces, with 1,024 entries by
# default (net.ipv4.neigh.default.gc_thresh3). 32 hosts that all talk to each
# other fill it. Permanent entries do not count, so make the entries permanent.
know_neighbours() {
  local n=$1 i iface
  local names=(${LAB_IFACES:-eth0})
  for i in $(seq 1 "$n"); do
    printf 'neigh replace %s lladdr 02:00:00:4d:00:%02x dev IFACE\n' \
      "$subnet4.$i" "$i" "$subnet6$(printf %02x "$i")" "$i"
  done >"$root/neighbours"
  for i in $(seq 1 "$n"); do
    iface=${names[$(((i - 1) % ${#names[@]}))]}
    find_host "$i"
    sed "s/IFACE/$iface nud permanent/" "$root/neighbours" | ip_in "$host" ||
      die "cannot set the neighbours of host $i"
  done
}

# Waits until one more host has started; it is number $1 of $2.
await_host() {
  local i pid
  read -r -t 20 i pid <&7 && [ "$i" != failed ] || {
    sed 's/^/lab.sh: /' "$root"/lab*/log >&2
    die "only $(($1 - 1)) of $2 hosts have started"
  }
  write_pid "$pid" "$root/lab$i/pid"
}

up() {
  local n=${1:-} i count
  [[ $n =~ ^[1-9][0-9]?$ ]] || die "up: expected a number of hosts, 1 to 99"
  [ ! -e "$root/switch.pid" ] ||
    die "lab '$name' runs already; lab.sh down ends it"
  for count in unshare nsenter ip setsid; do
    command -v $count >/dev/null ||
      die "$count is not installed (packages util-linux and iproute2)"
  done
  mkdir -p -m 755 "$root" && mkfifo "$root/ready" && exec 7<>"$root/ready" ||
    die "cannot make the pipe $root/ready"
  trap 'status=$?; [ $status = 0 ] || down; exit $status' EXIT
  trap 'exit 1' INT TERM HUP
  start_switch
  make_cgroup
  for i in $(seq 1 "$n"); do start_host "$i"; done
  for count in $(seq 1 "$n"); do
    await_host "$count" "$n"
  done
  for i in $(seq 1 "$n"); do connect_host "$i"; done
  [ "$n" -le 30 ] || know_neighbours "$n"
  say "lab '$name': $n hosts, $subnet4.1 to $subnet4.$n"
}

# Ends host I with all its processes, and returns when they have ended. The
# kernel removes its end of the link later, with the namespace.
end_host() {
  local folder try
  find_host "$1"
  end_of "$root/lab$1/pid"
  if read -r folder 2>/dev/null <"$root/cgroup"; then
    echo 0 >"$folder/lab$1/cgroup.freeze"
  fi
  for try in $(seq 1 500); do
    see_born "$host" || return 0
    sleep 0.01
  done
  die "host $1 of lab '$name' does not end"
}

power() {
  find_host "${1:?}"
  in_switch ip link del "p$1" && end_host "$1"
}

boot() {
  local i=${1:?} pid at
  [ -d "$root/lab$i" ] || die "lab '$name' never had a host $i"
  read -r pid at <"$root/lab$i/pid"
  see_born "$pid" && [ "$born" = "$at" ] &&
    die "host $i of lab '$name' runs already"
  in_switch ip link del "p$i" 2>/dev/null
  exec 7<>"$root/ready"
  start_host "$i"
  await_host 1 1
  connect_host "$i"
}

# The pids of all processes in the host's pid namespace, as seen from this
# machine.
host_processes() {
  local space other
  space=$(readlink "/proc/$1/ns/pid")
  for other in /proc/[0-9]*; do
    [ "$(readlink "$other/ns/pid" 2>/dev/null)" = "$space" ] &&
      echo "${other#/proc/}"
  done
}

parent() { sed -n 's/^PPid:\t//p' "/proc/$1/status"; }

freeze() {
  local folder
  find_host "${1:?}"
  if read -r folder 2>/dev/null <"$root/cgroup"; then
    echo 1 >"$folder/lab$1/cgroup.freeze" || exit 1
    say "host $1 is frozen by its cgroup"
  else
    # shellcheck disable=SC2046
    kill -STOP $(host_processes "$host")
    say "host $1 is frozen by SIGSTOP"
  fi
}

thaw() {
  local pid folder
  find_host "${1:?}"
  if read -r folder 2>/dev/null <"$root/cgroup"; then
    echo 0 >"$folder/lab$1/cgroup.freeze"
  else
    # nsenter and unshare, outside of the namespace, stop with the process that
    # they wait for, so continue the parents too.
    for pid in $(host_processes "$host"); do
      kill -CONT "$pid" "$(parent "$pid")" 2>/dev/null
    done
    return 0
  fi
}

run_on() {
  [ $# -ge 2 ] || die "exec: expected a host's number and a command"
  find_host "$1"
  enter_cgroup "$1"
  shift
  exec nsenter -t "$host" "${user_flags[@]}" -m -u -n -p -- \
    sh -c 'cd "$1" 2>/dev/null; shift; exec "$@"' sh "$PWD" "$@"
}

# Packets above the rate wait in a queue that is long enough for them.
slow() {
  in_switch tc qdisc replace dev "p${1:?}" root tbf rate "${2:?}kbit" \
    burst 1600 limit 1mb
}

heal() {
  local file i
  in_switch nft flush chain bridge lab fault
  for file in "$root"/lab*/pid; do
    i=${file%/pid}
    in_switch tc qdisc del dev "p${i##*/lab}" root 2>/dev/null
  done
  return 0
}

rule() { in_switch nft add rule bridge lab fault "$@"; }

fault() {
  command -v nft >/dev/null || die "nft is not installed (package nftables)"
  in_switch nft -f - <<<'add table bridge lab
    add chain bridge lab fault { type filter hook forward priority 0; }' ||
    exit 1
  case ${1:-} in
    cut)
      if [ $# = 3 ]; then
        rule iifname "p$2" oifname "p$3" drop
      else
        rule iifname "p$2" drop && rule oifname "p$2" drop
      fi ;;
    loss) rule iifname "p$2" numgen random mod 100 '<' "$3" drop ;;
    slow) slow "${2:-}" "${3:-}" ;;
    heal) heal ;;
    *) die "fault: expected cut I [J], loss I PERCENT, slow I KILOBITS or" \
         "heal" ;;
  esac
}

down() {
  local file
  for file in "$root"/lab*/pid "$root"/switch.pid; do
    [ -e "$file" ] && end_of "$file"
  done
  # A host that was started and has not reported its pid ends together with its
  # unshare.
  local job
  for job in $(jobs -p); do kill -9 "$job" 2>/dev/null; done
  remove_cgroup
  rm -rf "$root"
  rmdir "$(dirname "$root")" 2>/dev/null
  return 0
}

command=${1:-}
[ $# = 0 ] || shift
case $command in
  up | fault | power | boot | freeze | thaw | down) "$command" "$@" ;;
  exec) run_on "$@" ;;
  pid) find_host "${1:?}" && echo "$host" ;;
  dir) echo "$root/lab${1:?}" ;;
  kill) end_host "${1:?}" ;;
  become-host) become_host "$@" ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
