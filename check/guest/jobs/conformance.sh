# The port conformance suite over a pair of NICs, in the requested mode, which the socket confirms.
. /guest/prelude.sh
nics 1
export COVALENT_TEST_INTERFACES=near0,far0 COVALENT_TEST_XDP=$XDP COVALENT_TEST_COPY=$COPY COVALENT_TEST_FRAMES=50000
"$TESTS" --test-threads=1 --nocapture existing_interfaces:: 2>&1 | tee /guest/suite.log
mode=$(sed -n 's/.*mode: //p' /guest/suite.log | head -1)
[ "$mode" = "$XDP $COPY" ] || fail "the socket is in the mode '$mode', not '$XDP $COPY'"
fact mode "AF_XDP $mode"
fact tests "$(sed -n 's/^test result: ok. \([0-9]*\) passed.*/\1/p' /guest/suite.log)"
