# Who waits for a timer: TCP and soft-RoCE beside Covalent, on one cable whose frames are lost for all alike, and which is cut.
. /guest/prelude.sh
. /guest/rdma.sh
load_rdma
load nf_tables nft_numgen nft_fwd_netdev
# Few enough requests that an emulated machine keeps up with all of them on every side: else what is measured is a queue.
covalent-bench loss --against rxe-cas,rxe-cas-rto,tcp,tcp-rto,covalent-cas --losses 0,0.01,0.1,1 \
    --rate 400 --seconds 4 --repeats 1 --cuts 2 --format json >/guest/loss.json
covalent-guest retry /guest/loss.json >>/guest/facts
fact mode "rdma_rxe, TCP and AF_XDP native copy, veth, nftables between"
