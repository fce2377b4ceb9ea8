# Retransmission timers: compares TCP, soft-RoCE and Covalent on one cable with the same frame
# losses and cuts.
. /guest/prelude.sh
. /guest/rdma.sh
load_rdma
load nf_tables nft_numgen nft_fwd_netdev
# A rate that every side sustains on an emulated machine: otherwise the measurement shows a queue.
covalent-bench loss --against rxe-cas,rxe-cas-rto,tcp,tcp-rto,covalent-cas --losses 0,0.01,0.1,1 \
    --rate 400 --seconds 4 --repeats 1 --cuts 2 --format json >/guest/loss.json
covalent-guest retry /guest/loss.json >>/guest/facts
fact mode "rdma_rxe, TCP and AF_XDP native copy, veth, nftables between"
