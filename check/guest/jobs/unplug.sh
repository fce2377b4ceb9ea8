# A NIC is removed while a bank's clients use both links. The daemon reports it, and the other link
# continues.
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
grep -q 'interface .* was removed' /guest/a.log || fail "node a does not log the removal of its interface"
[ "$(links a)" = 1 ] || fail "$(links a) links of node a are up"
fact mode "AF_XDP $XDP $COPY"
fact failures "$(failures a)"
