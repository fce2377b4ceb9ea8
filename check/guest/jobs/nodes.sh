# Functions for jobs with two nodes, a and b, in separate namespaces: daemons, a bank on b, and its
# clients on a.

# cable_nodes: moves near* to node a and far* to node b.
cable_nodes() {
    local cable end
    ip netns add a
    ip netns add b
    for cable in 0 1; do
        ip link set "near$cable" netns a
        ip link set "far$cable" netns b
        ip -n a link set "near$cable" up promisc on
        ip -n b link set "far$cable" up promisc on
    done
}

# port END: prints the port configuration of the NIC at this end. A job may override it.
port() {
    printf 'kind = "af_xdp"\ninterface = "%s"\nqueues = 1\nxdp = "%s"\ncopy = "%s"\n' "$1" "$XDP" "${COPY/-/_}"
}

# start_nodes [PAGES]: starts both daemons and waits until both links are up. PAGES: the value of
# huge_pages, default `never`.
start_nodes() {
    local node end cable
    for node in a b; do
        end=near
        [ "$node" = a ] || end=far
        mkdir -p "/tmp/nodes/$node"
        {
            printf '[node]\nname = "%s"\nruntime_dir = "/tmp/nodes/%s/run"\nstate_dir = "/tmp/nodes/%s/state"\n' "$node" "$node" "$node"
            printf '[dataplane]\nhuge_pages = "%s"\n[link]\nkeepalive_misses_max = 100\n' "${1:-never}"
            printf '[[lane]]\ncore = %s\n' "$([ "$node" = a ] && echo 0 || echo 1)"
            for cable in 0 1; do
                printf '[[port]]\nname = "p%s"\nring_slots = 512\n' "$cable"
                port "$end$cable"
            done
        } >"/tmp/nodes/$node.toml"
        ip netns exec "$node" "${DAEMON:-covalentd}" --config "/tmp/nodes/$node.toml" 2>"/guest/$node.log" &
        eval "daemon_$node=$!"
    done
    await_links
}

# links NODE: prints the number of its links that are up.
links() {
    covalent status --socket "/tmp/nodes/$1/run/covalentd.sock" --format json 2>/dev/null |
        tr -d ' \n' | grep -o '"state":"up"' | wc -l
}

await_links() {
    local tries
    for tries in $(seq 100); do
        expect_daemons
        [ "$(links a) $(links b)" = "2 2" ] && return
        sleep 0.2
    done
    tail -n 20 /guest/a.log /guest/b.log
    fail "the links do not come up"
}

# start_bank CLIENTS OPTIONS...: starts a bank on b, and that many clients on a.
start_bank() {
    local client count=$1
    shift
    rm -f /guest/bank.json /guest/client-*.json
    covalent-bank host --socket /tmp/nodes/b/run/covalentd.sock --format json </dev/null >/guest/bank.json &
    bank=$!
    clients=
    for client in $(seq "$count"); do
        covalent-bank client --socket /tmp/nodes/a/run/covalentd.sock --node b --seed "$client" \
            --wait-ms 60000 --patience-ms 120000 --format json "$@" >"/guest/client-$client.json" &
        clients="$clients $!"
    done
}

# expect_clients WHEN: fails unless all clients still run.
expect_clients() {
    local client
    for client in $clients; do
        kill -0 "$client" 2>/dev/null || fail "a client was done before $1: what happens then shows nothing"
    done
}

# await_clients: waits for all clients, and fails if one reports an error.
await_clients() {
    local client
    for client in $clients; do
        wait "$client" || fail "a client of the bank: $(tail -n 1 /guest/client-*.json)"
    done
}

# close_bank: stops the bank and compares its books with the results of the clients: nothing lost,
# nothing duplicated.
close_bank() {
    kill -TERM "$bank"
    wait "$bank" || fail "the bank: $(tail -n 1 /guest/bank.json)"
    covalent-guest books /guest/bank.json /guest/client-*.json
}

# expect_daemons: fails unless both daemons still run.
expect_daemons() {
    kill -0 "$daemon_a" || fail "the daemon of node a ended: $(tail -n 5 /guest/a.log)"
    kill -0 "$daemon_b" || fail "the daemon of node b ended: $(tail -n 5 /guest/b.log)"
}

# failures NODE: prints the reasons of its link failures from its log, with counts.
failures() {
    sed -n 's/.*LinkDown {.*reason: "\([^"]*\)".*/\1/p' "/guest/$1.log" | sort | uniq -c |
        awk '{ count = $1; $1 = ""; printf "%s%s ×%d", (NR > 1 ? "," : ""), $0, count }' | sed 's/^ //'
}
