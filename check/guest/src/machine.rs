//! One guest: QEMU without KVM, a stock kernel, and the host's root below an in-memory overlay.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    kernel::Kernel,
    monitor::{self, Monitor},
    nic::Nic,
    stock::Stock,
};

const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The emulated machine.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    /// Its kernel.
    pub kernel: &'a Kernel,
    /// Its NICs, if it has any.
    pub nic: Option<Nic>,
    /// Whether DMA goes through a virtual IOMMU.
    pub iommu: bool,
    /// Memory.
    pub memory_mib: u32,
    /// Whether the clock is read from the time stamp counter.
    pub quick_clock: bool,
}

/// How a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It switched itself off.
    Off,
    /// It was still running at the deadline, and was killed.
    Overdue,
}

impl Machine<'_> {
    /// Runs the guest until it powers off. `folder` is the job's folder: it is shared with the
    /// guest and receives its console output.
    ///
    /// # Errors
    /// QEMU cannot be started or exits with an error.
    pub fn run(&self, stock: &Stock, folder: &Path, deadline: Duration) -> Result<Ending> {
        let (qmp, requests) = (folder.join("qmp.sock"), folder.join("ask.sock"));
        let console =
            File::create(folder.join("console.log")).context("cannot keep the console")?;
        let mut child = self
            .command(stock, folder, &qmp, &requests)
            .stdin(Stdio::null())
            .stderr(console.try_clone().context("cannot keep the console")?)
            .stdout(console)
            .spawn()
            .context(
                "cannot run `setpriv`, which ends QEMU with this program\n  cure: apt-get \
                install util-linux",
            )?;
        // The thread ends with QEMU, whose exit closes both sockets.
        let attendant = thread::spawn(move || {
            let mut monitor = Monitor::connect(&qmp)?;
            monitor::attend(&requests, &mut monitor)
        });
        let ending = wait(&mut child, deadline);
        let attended = attendant
            .join()
            .unwrap_or_else(|_| bail!("the thread at QEMU's monitor panicked"));
        match ending? {
            Some(Ending::Off) => attended.map(|()| Ending::Off),
            Some(ending) => Ok(ending),
            None => bail!("QEMU failed: {}", tail(&folder.join("console.log"))),
        }
    }

    fn command(&self, stock: &Stock, folder: &Path, qmp: &Path, requests: &Path) -> Command {
        let qemu = stock.qemu();
        let libraries = qemu.join("usr/lib/x86_64-linux-gnu");
        let unpacked = qemu.join("usr/bin/qemu-system-x86_64");
        // A QEMU that is installed on the machine was not downloaded.
        let program = if unpacked.exists() {
            unpacked
        } else {
            PathBuf::from("qemu-system-x86_64")
        };
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .env("LD_LIBRARY_PATH", &libraries)
            .env("QEMU_MODULE_DIR", libraries.join("qemu"));
        for folder in ["usr/share/seabios", "usr/share/qemu"] {
            command.arg("-L").arg(qemu.join(folder));
        }
        command.args(["-L", "/usr/share/seabios", "-L", "/usr/share/qemu"]);
        command.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]);
        command.args([
            "-nographic",
            "-no-reboot",
            "-nodefaults",
            "-serial",
            "stdio",
        ]);
        command.arg("-m").arg(self.memory_mib.to_string());
        let chipset = if self.iommu {
            "q35,kernel-irqchip=split"
        } else {
            "q35"
        };
        command.args(["-machine", chipset]);
        // On a busy host the emulated timer is late, which the kernel would take for a broken one.
        let mut line = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check".to_owned();
        if self.quick_clock {
            // Else the kernel distrusts the emulated TSC, and each clock read exits under QEMU's
            // lock. One of some 20 guests did not boot with this: a CPU timer never fired.
            line += " tsc=reliable clocksource=tsc";
        }
        if self.iommu {
            command.args([
                "-device",
                "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on",
            ]);
            line += " intel_iommu=on iommu=nopt";
        }
        command.arg("-chardev").arg(format!(
            "socket,id=asks,path={},server=on,wait=off",
            requests.display()
        ));
        command.args(["-serial", "chardev:asks"]);
        command
            .arg("-qmp")
            .arg(format!("unix:{},server=on,wait=off", qmp.display()));
        command.arg("-kernel").arg(self.kernel.image());
        command.arg("-initrd").arg(self.kernel.initramfs());
        command.arg("-append").arg(line);
        share(&mut command, "root", Path::new("/"), true);
        share(&mut command, "run", folder, false);
        share(&mut command, "modules", &self.kernel.modules(), true);
        command.args(
            self.nic
                .map(|nic| nic.arguments(folder))
                .unwrap_or_default(),
        );
        command
    }
}

/// Shares a folder of the host with the guest.
fn share(command: &mut Command, tag: &str, folder: &Path, read_only: bool) {
    let read_only = if read_only { ",readonly=on" } else { "" };
    command.arg("-fsdev").arg(format!(
        "local,id={tag},path={},security_model=none,multidevs=remap{read_only}",
        folder.display()
    ));
    command
        .arg("-device")
        .arg(format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
}

/// `None` when it ended with an error.
fn wait(child: &mut Child, deadline: Duration) -> Result<Option<Ending>> {
    let end = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for QEMU")? {
            return Ok(status.success().then_some(Ending::Off));
        }
        if Instant::now() > end {
            child.kill().context("cannot end QEMU")?;
            child.wait().context("cannot wait for QEMU")?;
            return Ok(Some(Ending::Overdue));
        }
        thread::sleep(RECHECK_INTERVAL);
    }
}

/// The last lines of a console.
pub fn tail(console: &Path) -> String {
    const LINES: usize = 40;
    let bytes = fs::read(console).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
