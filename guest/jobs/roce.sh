# Soft-RoCE, as perftest measures it, beside Covalent's verbs: one kernel, virtual cables of one kind, the same cores, by turns.
. /guest/prelude.sh
. /guest/rdma.sh
load_rdma
# Compare-and-swap first: all sides take turns on one and the same cable.
covalent-bench latency --ping-pong --against rxe-cas,covalent-cas,covalent-message --sizes 8 --seconds 5 --repeats 5 --format json >/guest/latency.json
# It judges itself against a bare echo, which is not asked for here: only figures are taken from it.
covalent-bench rtt --seconds 1.5 --repeats 3 --format json >/guest/rtt.json || status=$?
# On a machine that is too slow for it nothing is told of the lane's thread.
lane=(--rtt /guest/rtt.json)
[ "${status:-0}" -le 1 ] || lane=()
covalent-bench atomics --against none --seconds 3 --repeats 3 --format json >/guest/atomics.json
join_rdma
rdma link show
for round in 1 2 3; do
    perf ib_send_lat -s 64 -n 1000
    perf ib_write_lat -s 8 -n 1000
    perf ib_atomic_lat -A CMP_AND_SWAP -n 2000
    perf ib_atomic_lat -A FETCH_AND_ADD -n 2000
    perf ib_atomic_bw -A FETCH_AND_ADD -n 10000
    perf ib_atomic_bw -A CMP_AND_SWAP -n 10000
done >/guest/perftest.txt
covalent-bench perftest /guest/perftest.txt --format json >/guest/perftest.json
covalent-guest roce /guest/latency.json /guest/perftest.json /guest/atomics.json "${lane[@]}" >>/guest/facts
fact mode "rdma_rxe and AF_XDP native copy, veth"
