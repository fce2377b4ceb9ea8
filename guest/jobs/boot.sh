# The lab itself: a stock kernel runs what was built on the host, and the machine around it answers.
. /guest/prelude.sh
covalent --version
covalent config print-default >/tmp/covalent.toml
covalent config check /tmp/covalent.toml
fact version "$(covalent --version)"
