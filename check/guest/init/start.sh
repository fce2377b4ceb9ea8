# Runs the job in the merged root, reports its exit status and powers the machine off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
ulimit -l unlimited
ip link set lo up
echo "covalent-guest: $(uname -r) is up after $(cut -d' ' -f1 /proc/uptime) s"
cd /root; bash /guest/job.sh 2>&1
echo $? >/guest/status
sync
echo o >/proc/sysrq-trigger
# Run no program any more: the root may already be gone.
while :; do :; done
