# A NIC is taken out while a bank's clients work over both links: an event, and the other link goes on.
. /guest/prelude.sh
. /guest/nodes.sh
nics 1
cable_nodes
start_nodes
start_bank 2 --fetch-adds 60000 --transfers 3000 --locks 200
sleep 2
expect_clients "the NIC was taken out"
monitor unplug near0
await_clients
close_bank
expect_daemons
grep -q 'the interface is gone' /guest/a.log || fail "the log of node a does not say that the interface is gone"
[ "$(links a)" = 1 ] || fail "$(links a) links of node a are up"
fact mode "AF_XDP $XDP $COPY"
fact failures "$(failures a)"
