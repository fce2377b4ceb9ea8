# A short demonstration (`covalent demo`) over both cables: streams, verbs, a link cut with open
# exchanges, and kernel TCP for comparison.
. /guest/prelude.sh
nics 1
# `covalent demo` cuts the link by disconnecting both ends of the first cable.
cat >/tmp/cut <<'CUT'
. /guest/prelude.sh
monitor link near0 "$1"
monitor link far0 "$1"
CUT
covalent demo --port af_xdp --no-bench --quick --seconds 2 --fetch-adds 10000 --patience 20 \
    --interfaces near0,far0 --interfaces near1,far1 --cut-with "bash /tmp/cut" --format json >/guest/demo.json || status=$?
covalent-guest demo /guest/demo.json >>/guest/facts
# It uses the best available mode: native, if the driver supports it.
grep -qxE "mode AF_XDP (native|generic) $COPY" /guest/facts || fail "the ports were not in the mode $COPY"
exit "${status:-0}"
