# DPDK drivers on the NICs, bound to vfio-pci behind the virtual IOMMU, on huge pages: the port
# conformance suite on the first cable, then a bank between two nodes over both cables.
. /guest/prelude.sh
. /guest/nodes.sh
nics 1
load vfio-pci
# The suite's packet memory: 1 GiB.
echo 520 >/proc/sys/vm/nr_hugepages
mount -t hugetlbfs hugetlbfs /dev/hugepages
declare -A address
for end in near0 far0 near1 far1; do
    address[$end]=$(readlink -f "/sys/class/net/$end/device" | grep -o '[0-9a-f]\{4\}:[0-9a-f]\{2\}:[0-9a-f]\{2\}\.[0-9a-f]' | tail -1)
done
for end in near0 far0 near1 far1; do
    device=/sys/bus/pci/devices/${address[$end]}
    [ -e "$device/iommu_group" ] || fail "${address[$end]} is behind no IOMMU"
    echo vfio-pci >"$device/driver_override"
    echo "${address[$end]}" >"$device/driver/unbind"
    echo "${address[$end]}" >/sys/bus/pci/drivers_probe
    [ "$(basename "$(readlink "$device/driver")")" = vfio-pci ] || fail "${address[$end]} is not driven by vfio-pci"
done
export COVALENT_TEST_DEVICES="${address[near0]},${address[far0]}" COVALENT_TEST_HUGE=1
"$TESTS" --test-threads=1 --nocapture dpdk_devices:: 2>&1 | tee /guest/suite.log
! grep -q 'skipped:' /guest/suite.log || fail "the suite was skipped"
fact mode "DPDK, vfio-pci behind the IOMMU"
tests=$(sed -n 's/^test result: ok. \([0-9]*\) passed.*/\1/p' /guest/suite.log)
[ "${tests:-0}" -ge 9 ] || fail "of the suite's 9 tests ${tests:-0} ran"
fact tests "$tests"

port() { printf 'kind = "dpdk"\ndevice = "%s"\n' "${address[$1]}"; }
ip netns add a
ip netns add b
start_nodes require
start_bank 2 --fetch-adds 6000 --transfers 300 --locks 20
await_clients
close_bank
await_links
expect_daemons
fact bank "books exact over both links"
