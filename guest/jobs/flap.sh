# The first cable is pulled and put in again, several times, while a bank's clients work over both links.
. /guest/prelude.sh
. /guest/nodes.sh
nics 1
cable_nodes
start_nodes
start_bank 2 --fetch-adds 6000 --transfers 300 --locks 20
flaps=4
for flap in $(seq "$flaps"); do
    sleep 1
    monitor link near0 off
    monitor link far0 off
    sleep 1
    monitor link near0 on
    monitor link far0 on
done
await_clients
close_bank
await_links
expect_daemons
noticed=$(grep -c 'LinkDown.*port: "p0"' /guest/a.log)
[ "$noticed" -ge "$flaps" ] || fail "$noticed of $flaps flaps were noticed"
fact mode "AF_XDP $XDP $COPY"
fact flaps "$flaps"
fact failures "$(failures a)"
