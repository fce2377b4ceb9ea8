# Soft-RoCE functions for jobs.

# load_rdma: loads the modules, and installs the provider of libibverbs if the host does not have
# it.
load_rdma() {
    local module
    for module in veth ib_core ib_uverbs rdma_ucm rdma_rxe; do load "$module"; done
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    if [ -d "$TOOLS/etc/libibverbs.d" ]; then
        mkdir -p /etc/libibverbs.d /usr/lib/x86_64-linux-gnu/libibverbs
        cp -an "$TOOLS/etc/libibverbs.d/." /etc/libibverbs.d/
        cp -an "$TOOLS/usr/lib/x86_64-linux-gnu/libibverbs/." /usr/lib/x86_64-linux-gnu/libibverbs/
    fi
    rdma link show >/dev/null || cannot "this kernel has no RDMA"
}

# join_rdma: creates a veth pair r0–r1 with an RDMA device at each end, rdma0 and rdma1. Both are in
# this namespace, the only one that soft-RoCE of this kernel supports. Each device sends through its
# own interface, so all frames use the veth pair.
join_rdma() {
    local end other
    ip link add r0 numrxqueues 1 numtxqueues 1 type veth peer name r1 numrxqueues 1 numtxqueues 1
    for end in 0 1; do
        other=$((1 - end))
        echo 1 >"/proc/sys/net/ipv4/conf/r$end/accept_local"
        echo 0 >"/proc/sys/net/ipv4/conf/r$end/rp_filter"
        ip link set "r$end" up
        ip addr add "10.89.0.$end/32" dev "r$end"
        ip route add "10.89.0.$other" dev "r$end"
        ip neigh replace "10.89.0.$other" lladdr "$(cat "/sys/class/net/r$other/address")" dev "r$end" nud permanent
    done
    for end in 0 1; do rdma link add "rdma$end" type rxe netdev "r$end"; done
}

# gid DEVICE: prints the GID index of its IPv4 address.
gid() {
    grep -l '^0000:0000:0000:0000:0000:ffff:' "/sys/class/infiniband/$1/ports/1/gids/"* | head -1 | xargs basename
}

# perf PROGRAM OPTIONS...: runs a perftest program between the devices, the server on core 1 and the
# client on core 0, like all others here.
perf() {
    local program=$1 server tries
    shift
    taskset -c 1 "$program" -d rdma1 -x "$(gid rdma1)" -F "$@" >/tmp/perf-server 2>&1 &
    server=$!
    # The server is ready when its TCP port is open.
    for tries in $(seq 100); do
        ss -Hltn 'sport = :18515' | grep -q . && break
        sleep 0.1
    done
    taskset -c 0 "$program" -d rdma0 -x "$(gid rdma0)" -F "$@" 127.0.0.1 || fail "$program: $(cat /tmp/perf-server)"
    wait "$server" || fail "$program: $(cat /tmp/perf-server)"
}
