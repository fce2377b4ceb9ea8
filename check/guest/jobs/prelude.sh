# Common start of every job. A job exits with 0 on success, 77 if it cannot run here (`cannot`), and
# another status on failure.
set -euo pipefail
. /guest/environment.sh
export PATH="/guest:$PROGRAMS:$TOOLS/usr/bin:$TOOLS/usr/sbin:$PATH"
export LD_LIBRARY_PATH="$TOOLS/usr/lib/x86_64-linux-gnu"

# fact NAME VALUE...: reports a fact about this run to the runner.
fact() { printf '%s\n' "$*" >>/guest/facts; }

# cannot REASON...: ends the job as one that cannot run here.
cannot() {
    fact skipped "$*"
    exit 77
}

# fail REASON...: ends the job as failed.
fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# load MODULE...: loads modules. A module that is built in is already available.
load() {
    local module
    for module; do modprobe "$module" || echo "no module $module: built in, or not there"; done
}

# monitor REQUEST...: sends a request to the monitor on the host (check/guest/src/monitor.rs), and waits
# for its reply.
monitor() {
    local answer
    exec 9<>/dev/ttyS1
    flock 9
    stty -F /dev/ttyS1 raw -echo
    printf '%s\n' "$*" >&9
    read -r answer <&9
    exec 9>&-
    [ "$answer" = ok ] || fail "monitor $*: $answer"
}

# interface_of MAC: prints the interface with this address.
interface_of() {
    local path
    for path in /sys/class/net/*; do
        if [ "$(cat "$path/address")" = "$1" ]; then
            basename "$path"
            return
        fi
    done
    fail "no interface has the address $1"
}

# nics QUEUES: loads the driver, names the ends of both cables near0, far0, near1 and far1, and sets
# them up.
nics() {
    local cable side end interface
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6 2>/dev/null || true
    load "$DRIVER"
    udevadm settle 2>/dev/null || sleep 1
    for cable in 0 1; do
        for side in 0 1; do
            end=near
            [ "$side" = 0 ] || end=far
            interface=$(interface_of "$(printf '52:54:00:00:%02x:%02x' "$cable" "$side")")
            ip link set "$interface" down
            ip link set "$interface" name "$end$cable"
            [ "$(basename "$(readlink "/sys/class/net/$end$cable/device/driver")")" = "$DRIVER" ] ||
                [ "$(basename "$(readlink "/sys/class/net/$end$cable/device/../driver")")" = virtio-pci ] ||
                fail "$end$cable is not driven by $DRIVER"
            ethtool -L "$end$cable" combined "$1" 2>/dev/null || true
            # Deeper than a burst of the suite: a frame that does not fit a NIC's ring is lost.
            ethtool -G "$end$cable" rx 1024 tx 1024 2>/dev/null || true
            # Otherwise AF_XDP gets frames without their VLAN tags.
            ethtool -K "$end$cable" rxvlan off 2>/dev/null || true
            ip link set "$end$cable" up promisc on
        done
    done
    for end in near0 far0 near1 far1; do await_carrier "$end"; done
}

# await_carrier INTERFACE: waits until it has a carrier.
await_carrier() {
    local tries
    for tries in $(seq 300); do
        [ "$(cat "/sys/class/net/$1/carrier" 2>/dev/null)" = 1 ] && return
        sleep 0.1
    done
    fail "$1 has no carrier"
}
