# netem in the path: both cables pass through a namespace whose queues delay, lose, duplicate,
# damage and reorder frames.
#
#   near0 :a ══ veth ══ near-0 ─► clsact, mirred ─► netem at the egress of far-0 ══ veth ══ far0 :b
#
# The reverse path is the same. AF_XDP bypasses the queuing disciplines of its own interface, so
# netem is attached to the interfaces in the middle, which all frames pass.
. /guest/prelude.sh
. /guest/nodes.sh
load veth sch_netem sch_ingress cls_matchall act_mirred
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
ip netns add middle
for cable in 0 1; do
    for end in near far; do
        ip link add "$end$cable" type veth peer name "$end-$cable" netns middle
        ip link set "$end$cable" up
        ip -n middle link set "$end-$cable" up
        tc -n middle qdisc add dev "$end-$cable" clsact
    done
    tc -n middle filter add dev "near-$cable" ingress matchall action mirred egress redirect dev "far-$cable"
    tc -n middle filter add dev "far-$cable" ingress matchall action mirred egress redirect dev "near-$cable"
done
cable_nodes
start_nodes
fact mode "AF_XDP $XDP $COPY on veth, netem between"

# damage NAME ADDITIONS NETEM...: runs a bank while netem damages every cable in both directions,
# and records why its links failed. Its books must be exact.
damage() {
    local name=$1 additions=$2 device node
    local -A before
    shift 2
    for device in near-0 near-1 far-0 far-1; do
        tc -n middle qdisc replace dev "$device" root netem "$@" limit 100000
    done
    # Changing the queue loses frames in flight. Wait, so that these losses are not counted.
    sleep 0.5
    await_links
    for node in a b; do before[$node]=$(wc -l <"/guest/$node.log"); done
    start_bank 2 --fetch-adds "$additions" --transfers $((additions / 20)) --locks $((additions / 200))
    await_clients
    close_bank
    expect_daemons
    echo "$name:"
    tc -n middle -s qdisc show dev far-0 root
    for node in a b; do tail -n "+$((before[$node] + 1))" "/guest/$node.log"; done >/guest/part.log
    for device in near-0 near-1 far-0 far-1; do tc -n middle qdisc del dev "$device" root; done
    damages="${damages:+$damages, }{\"damage\": \"$*\", \"additions\": $((2 * additions)), \"failures\": \"$(failures part)\"}"
    await_links
}
damage none 3000 delay 0ms
quiet=$(failures part)
damage delay 1000 delay 10ms
quiet="$quiet$(failures part)"
damage loss_1 3000 loss 1%
damage loss_5 1500 loss 5%
damage duplicate 3000 duplicate 2%
doubled=$(failures part)
damage corrupt 3000 corrupt 1%
damage reorder 1000 delay 5ms reorder 75%
reordered=$(failures part)
fact damages "[$damages]"
[ -z "$quiet" ] || fail "links failed though no frame was harmed: $quiet"
[ -z "$doubled" ] || fail "links failed though frames only came twice: $doubled"
case $reordered in
    *"out of order"*) ;;
    *) fail "reordering is not named in the log: '$reordered'" ;;
esac
