# Compares soft-RoCE, measured by perftest, with Covalent's verbs: same kernel, same kind of virtual
# cable, same cores, one after the other.
. /guest/prelude.sh
. /guest/rdma.sh
load_rdma
# Compare-and-swap first: all sides take turns on the same cable. For comparison also their bounds
# on this machine: a bare AF_XDP echo, UDP, and a local swap whose application has its own core. The
# benchmark's goals do not apply here (exit status 1 is accepted): only its figures are used.
covalent-bench latency --ping-pong --sizes 8 \
    --against rxe-cas,covalent-cas,covalent-lane-cas,covalent-message,covalent-local-cas,af_xdp,udp-spin --seconds 3 --repeats 3 \
    --format json >/guest/latency.json || [ $? = 1 ]
covalent-bench atomics --against none --seconds 3 --repeats 3 --format json >/guest/atomics.json || [ $? = 1 ]
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
covalent-guest roce /guest/latency.json /guest/perftest.json /guest/atomics.json >>/guest/facts
fact mode "rdma_rxe and AF_XDP native copy, veth"
