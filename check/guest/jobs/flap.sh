# The first cable is disconnected and reconnected several times, while a bank's clients use both
# links.
. /guest/prelude.sh
. /guest/nodes.sh
nics 1
cable_nodes
start_nodes
start_bank 2 --fetch-adds 60000 --transfers 3000 --locks 200
flaps=4
for flap in $(seq "$flaps"); do
    sleep 1
    expect_clients "cut $flap"
    monitor link near0 off
    monitor link far0 off
    sleep 1
    [ "$(links a)" = 1 ] || fail "cut $flap was not noticed within a second: $(links a) links of node a are up"
    monitor link near0 on
    monitor link far0 on
done
await_clients
close_bank
await_links
expect_daemons
fact mode "AF_XDP $XDP $COPY"
fact flaps "$flaps"
fact failures "$(failures a)"
