# Tests the setup itself: a stock kernel runs the programs that were built on the host.
. /guest/prelude.sh
covalent --version
covalent config print-default >/tmp/covalent.toml
covalent config check /tmp/covalent.toml
fact version "$(covalent --version)"
