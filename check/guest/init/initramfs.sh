#!/bin/busybox sh
# The guest's first process. Loads the modules for a root over 9p, mounts a writable layer in memory
# over the host's root, which stays read-only, and continues there.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
# Modules that are built into this kernel fail here, without effect.
while read -r module; do insmod "/modules/$module" 2>/dev/null; done </modules/order

stop() {
    echo "covalent-guest: $1"
    poweroff -f
}
mkdir -p /host /layer /merged
share='trans=virtio,version=9p2000.L,msize=524288'
mount -t 9p -o "ro,$share,cache=loose,access=any" root /host || stop "the host's root cannot be mounted"
mount -t tmpfs layer /layer && mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work merged /merged || stop "no writable layer"
mkdir -p /merged/guest /merged/lib/modules
mount -t 9p -o "$share" run /merged/guest || stop "the job's folder cannot be mounted"
mount -t 9p -o "ro,$share,cache=loose" modules /merged/lib/modules || stop "the kernel's modules cannot be mounted"
for point in proc sys dev; do mount --move "/$point" "/merged/$point"; done
mkdir -p /merged/dev/shm /merged/dev/pts /merged/dev/hugepages
mount -t tmpfs shm /merged/dev/shm
mount -t tmpfs run /merged/run
mount -t devpts devpts /merged/dev/pts
exec switch_root /merged /bin/bash /guest/start.sh
