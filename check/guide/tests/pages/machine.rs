//! One machine of a world: a shell in namespaces of its own.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Stands alone on a line, with a status behind it, when a command has ended.
const ENDED: &str = "~ended~";

/// A machine. All that it runs, has mounted and wrote ends with it.
pub struct Machine {
    shell: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

/// Output of a command, and its exit status.
pub struct Done {
    pub printed: Vec<String>,
    pub status: i32,
}

impl Machine {
    /// A shell in new network, mount, process and host name namespaces.
    pub fn start() -> Self {
        let mut shell = Command::new("unshare")
            .args([
                "--net",
                "--mount",
                "--uts",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ])
            .args(["bash", "--norc", "--noprofile"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("unshare is a part of every Debian");
        let input = shell.stdin.take().expect("piped");
        let output = BufReader::new(shell.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                if sender
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    return;
                }
            }
        });
        Self {
            shell,
            input,
            lines,
        }
    }

    /// The shell's number, as this process sees it.
    pub fn pid(&self) -> i32 {
        let unshare = i32::try_from(self.shell.id()).expect("small");
        let is_its = |process: &procfs::process::Process| {
            process.stat().is_ok_and(|stat| stat.ppid == unshare)
        };
        procfs::process::all_processes()
            .expect("procfs")
            .filter_map(Result::ok)
            .find(is_its)
            .expect("the shell runs")
            .pid
    }

    /// Types a command and waits until it has ended; `None` if that takes longer than `patience`.
    pub fn run(&mut self, command: &str, patience: Duration) -> Option<Done> {
        // Run in the shell itself, so that `cd`, variables and jobs persist.
        let typed = format!("{{ {command}\n}} </dev/null 2>&1; printf '\\n{ENDED} %s\\n' $?\n");
        self.input
            .write_all(typed.as_bytes())
            .expect("the shell listens");
        let mut printed: Vec<String> = Vec::new();
        let deadline = Instant::now() + patience;
        loop {
            let line = self.line(deadline)?;
            if let Some(status) = line.strip_prefix(ENDED) {
                // The line before is the one that begins with the newline of the end.
                if printed.last().is_some_and(String::is_empty) {
                    printed.pop();
                }
                let status = status.trim().parse().expect("a status");
                return Some(Done { printed, status });
            }
            printed.push(line);
        }
    }

    /// The next line that something in the background prints.
    pub fn line(&mut self, deadline: Instant) -> Option<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(format!("{ENDED} 255")),
        }
    }

    /// Gives the machine what its user finds: its own `/etc`, `/usr`, `/var`, `/run` and clone.
    /// Changes to them end with the machine.
    pub fn furnish(&mut self, name: &str, place: &Path, clone: &Path, built: &Path) {
        let (place, clone, built) = (place.display(), clone.display(), built.display());
        let stand_ins = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pages/stand-ins");
        let script = format!(
            r#"set -e
            hostname {name}
            mount -t tmpfs tmpfs {place}
            mount -t sysfs sysfs /sys
            mount -t tmpfs tmpfs /run
            for folder in /etc /usr /var {clone}; do
                mkdir -p {place}/up$folder {place}/work$folder
                above={place}/up$folder,workdir={place}/work$folder
                mount -t overlay overlay -o lowerdir=$folder,upperdir=$above $folder
            done
            mkdir {place}/home
            ip link set lo up
            mkdir -p {clone}/target/release
            mount --bind {built} {clone}/target/release
            export HOME={place}/home USER=root EXAMPLES={built}/examples
            export PATH={stand_ins}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
            export LC_ALL=C.UTF-8 TERM=dumb
            unset CARGO LD_LIBRARY_PATH ${{!COVALENT_*}} ${{!CARGO_*}} ${{!MAKE*}} ${{!RUST*}}
            cd {clone}
            set +e"#
        );
        let done = self.run(&script, Duration::from_secs(20)).expect("quick");
        assert_eq!(done.status, 0, "{:?}", done.printed);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Its child dies with it. The child is the first process of its namespace.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
