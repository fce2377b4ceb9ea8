# DPDK's own drivers on the NICs, bound to vfio-pci behind the virtual IOMMU: the port conformance suite, on huge pages.
. /guest/prelude.sh
nics 1
load vfio-pci
echo 384 >/proc/sys/vm/nr_hugepages
mount -t hugetlbfs hugetlbfs /dev/hugepages
# pci_of INTERFACE: its device's address.
pci_of() { readlink -f "/sys/class/net/$1/device" | grep -o '[0-9a-f]\{4\}:[0-9a-f]\{2\}:[0-9a-f]\{2\}\.[0-9a-f]' | tail -1; }
addresses="$(pci_of near0) $(pci_of far0)"
for address in $addresses; do
    [ -e "/sys/bus/pci/devices/$address/iommu_group" ] || fail "$address is behind no IOMMU"
    echo vfio-pci >"/sys/bus/pci/devices/$address/driver_override"
    echo "$address" >"/sys/bus/pci/devices/$address/driver/unbind"
    echo "$address" >/sys/bus/pci/drivers_probe
    [ "$(basename "$(readlink "/sys/bus/pci/devices/$address/driver")")" = vfio-pci ] || fail "$address is not driven by vfio-pci"
done
export COVALENT_TEST_DEVICES="${addresses// /,}" COVALENT_TEST_HUGE=1
"$TESTS" --test-threads=1 --nocapture dpdk_devices:: 2>&1 | tee /guest/suite.log
! grep -q '^skipped' /guest/suite.log || fail "the suite was skipped"
fact mode "DPDK, vfio-pci behind the IOMMU"
fact tests "$(sed -n 's/^test result: ok. \([0-9]*\) passed.*/\1/p' /guest/suite.log)"
