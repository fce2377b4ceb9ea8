//! A host to break: a directory with a node's file and, as root, its own namespaces. The test
//! removes all of it at the end.

use std::{
    any::Any,
    fs::{self, File},
    os::{fd::AsRawFd, unix::fs::PermissionsExt},
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sched::{CloneFlags, unshare},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    broken::{Expected, MadeOf},
    support::{covalent, is_root, wait_until},
};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A host to break.
pub struct Ward {
    /// Objects held until the end: running programs and attached sessions of a test.
    pub kept: Vec<Box<dyn Any>>,
    /// Words before `covalent doctor` on its command line.
    pub before: Vec<String>,
    /// A frame may have been on its way to an interface when that was removed, and may be reported
    /// as lost.
    pub lost_an_interface: bool,
    /// Its interface leads to no other node, which is reported while the node runs.
    pub has_no_neighbor: bool,
    /// A pipe was full before the remedy, and its drops stay counted.
    pub filled_a_pipe: bool,
    place: tempfile::TempDir,
    far: Option<File>,
}

/// Runs `test` on such a host. A test that needs root is skipped without it, with a message.
pub fn with(made_of: MadeOf, test: impl FnOnce(&mut Ward) + Send) {
    let alone = matches!(
        made_of,
        MadeOf::Interface | MadeOf::InterfaceAndNode | MadeOf::NodeAlone
    );
    if alone && !is_root() {
        return;
    }
    let run = || {
        if alone {
            unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).unwrap();
            command("mount --make-rprivate /");
        }
        let mut ward = Ward {
            kept: Vec::new(),
            before: Vec::new(),
            lost_an_interface: false,
            has_no_neighbor: made_of == MadeOf::InterfaceAndNode,
            filled_a_pipe: false,
            place: tempfile::tempdir().unwrap(),
            far: None,
        };
        // Users other than root must reach the node's sockets.
        fs::set_permissions(ward.place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let on_interface = matches!(made_of, MadeOf::Interface | MadeOf::InterfaceAndNode);
        if on_interface {
            ward.join();
        }
        ward.write(on_interface);
        if matches!(
            made_of,
            MadeOf::InterfaceAndNode | MadeOf::Node | MadeOf::NodeAlone
        ) {
            ward.up();
        }
        test(&mut ward);
    };
    // A separate thread, whose namespaces are released when it exits.
    if let Err(panic) = thread::scope(|scope| scope.spawn(run).join()) {
        resume_unwind(panic);
    }
}

/// Runs a command line; its words are parted by spaces.
///
/// # Panics
/// If it fails.
pub fn command(line: &str) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap())
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{line}: {error}"));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {printed}");
}

impl Ward {
    /// Its directory.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// A path below its directory.
    pub fn at(&self, path: &str) -> PathBuf {
        self.place().join(path)
    }

    /// The node's file.
    pub fn file(&self) -> PathBuf {
        self.at("covalent.toml")
    }

    /// The socket of its daemon.
    pub fn socket(&self) -> PathBuf {
        self.at("run/covalentd.sock")
    }

    fn write(&self, on_interface: bool) {
        let place = self.place().display();
        let port = match on_interface {
            true => "kind = \"af_xdp\"\ninterface = \"near0\"\n".to_owned(),
            false => format!("kind = \"cable\"\npath = \"{place}/cable.sock\"\n"),
        };
        let text = format!(
            "[node]\nname = \"ward\"\nruntime_dir = \"{place}/run\"\nstate_dir \
             = \"{place}/state\"\n\
             [dataplane]\nhuge_pages = \"never\"\n\
             [control]\nmetrics_listen = \"127.0.0.1:0\"\n\
             [[port]]\nname = \"p0\"\n{port}"
        );
        fs::write(self.file(), text).unwrap();
    }

    /// Creates the interfaces `near0` and, in another network namespace, `far0`: joined and up,
    /// with two queues each.
    fn join(&mut self) {
        let silence = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        silence();
        let far = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            silence();
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        self.far = Some(far.join().unwrap());
        self.make_veth();
    }

    /// Makes the pair, for the first time or again.
    pub fn make_veth(&self) {
        command(
            "ip link add near0 numrxqueues 2 numtxqueues 2 type veth peer name far0 numrxqueues 2 \
             numtxqueues 2",
        );
        command(&format!("ip link set far0 netns {}", self.far()));
        command("ip link set near0 up");
        self.on_far_side("ip link set far0 up");
    }

    /// The network namespace at the other end, as a path.
    fn far(&self) -> String {
        let far = self.far.as_ref().unwrap();
        format!("/proc/{}/fd/{}", std::process::id(), far.as_raw_fd())
    }

    /// Runs a command line in the network namespace of `far0`.
    pub fn on_far_side(&self, line: &str) {
        command(&format!("nsenter --net={} {line}", self.far()));
    }

    /// Changes the node's file, which must contain `old`.
    pub fn edit(&self, old: &str, new: &str) {
        let text = fs::read_to_string(self.file()).unwrap();
        assert!(text.contains(old), "{old} is not in\n{text}");
        fs::write(self.file(), text.replace(old, new)).unwrap();
    }

    /// `covalent` with these arguments, for this node.
    pub fn covalent(&self, arguments: &[&str]) -> Command {
        let mut command = covalent(self.place());
        command.args(arguments).env("COVALENT_CONFIG", self.file());
        command
    }

    /// Runs `covalent` with these arguments.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, arguments: &[&str]) {
        let output = self.covalent(arguments).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {printed}");
    }

    /// Starts the node.
    pub fn up(&self) {
        self.run(&["up"]);
    }

    /// Executes a remedy up to the first comma or semicolon, as root.
    pub fn type_in(&self, cure: &str) {
        let line = cure.split([',', ';']).next().unwrap();
        let covalent = Path::new(env!("CARGO_BIN_EXE_covalent")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("sh")
            .args(["-c", line])
            .env(
                "PATH",
                format!("{}:{path}:/usr/sbin:/sbin", covalent.display()),
            )
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {printed}");
    }

    /// The process that runs `program` for the node.
    pub fn pid(&self, program: &str) -> Pid {
        let record = fs::read_to_string(self.at(&format!("run/{program}.pid"))).unwrap();
        Pid::from_raw(record.split_once('-').unwrap().0.parse().unwrap())
    }

    /// Kills `program` of the node with SIGKILL, and waits until it is gone.
    pub fn kill(&self, program: &str) {
        let pid = self.pid(program);
        kill(pid, Signal::SIGKILL).unwrap();
        // Without a process that reaps orphans, it stays a zombie.
        wait_until("it is gone", PATIENCE, || {
            let process = procfs::process::Process::new(pid.as_raw());
            process
                .and_then(|process| process.stat())
                .map_or(true, |stat| stat.state == 'Z')
        });
    }

    /// Returns the doctor's report as JSON, and its exit status.
    pub fn examine(&self) -> (Value, Option<i32>) {
        let doctor = self.covalent(&["doctor", "--format", "json"]);
        let mut command = match self.before.split_first() {
            None => doctor,
            Some((first, rest)) => {
                let mut before = Command::new(first);
                before
                    .args(rest)
                    .arg(doctor.get_program())
                    .args(doctor.get_args());
                before.env("COVALENT_CONFIG", self.file());
                before
            }
        };
        let output = command.stdin(Stdio::null()).output().unwrap();
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        (report, output.status.code())
    }

    /// Waits until the doctor finds exactly these, and gives their cures.
    ///
    /// # Panics
    /// If it does not.
    pub fn finds(&self, expected: &[Expected]) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (report, code) = self.examine();
            let printed: Vec<&Value> = report["findings"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|finding| finding["level"] != "fine")
                .filter(|finding| !(self.lost_an_interface && is_lost_with_its_interface(finding)))
                .filter(|finding| !(self.has_no_neighbor && is_of_silence(finding)))
                .filter(|finding| !(self.filled_a_pipe && is_of_full_pipes(finding)))
                .collect();
            if let Some(cures) = self.are(expected, &printed) {
                let failed = printed.iter().any(|finding| finding["level"] == "failed");
                assert_eq!(code, Some(i32::from(failed)), "{report:#}");
                assert!(report["took_ms"].is_u64(), "{report:#}");
                return cures;
            }
            let wanted: Vec<&str> = expected.iter().map(|it| it.check).collect();
            assert!(
                Instant::now() < deadline,
                "expected {wanted:?}, found {printed:#?}"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the remedies of the expected findings, if the reported findings are exactly these.
    fn are(&self, expected: &[Expected], printed: &[&Value]) -> Option<Vec<String>> {
        if printed.len() != expected.len() {
            return None;
        }
        let of = |wanted: &Expected| {
            let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
            let place = self.place().display().to_string();
            let check = wanted.check.replace("PLACE", &place);
            let is_it = |finding: &&&Value| match check.strip_suffix('…') {
                Some(beginning) => text(finding, "check").starts_with(beginning),
                None => text(finding, "check") == check,
            };
            let finding = printed.iter().find(is_it)?;
            let found = text(finding, "found");
            let cure = text(finding, "cure");
            let is_printed = finding["level"] == wanted.level
                && wanted.found.iter().all(|words| found.contains(words))
                && cure.contains(&wanted.cure.replace("PLACE", &place));
            is_printed.then_some(cure)
        };
        expected.iter().map(of).collect()
    }
}

impl Drop for Ward {
    fn drop(&mut self) {
        // Attached sessions and running programs go first.
        self.kept.clear();
        // A process that a test stopped exits anyway: `covalent down` ensures it.
        let output = self.covalent(&["down"]).output();
        if let Ok(output) = output
            && !output.status.success()
        {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// Returns whether a finding reports that no neighbor answers.
fn is_of_silence(finding: &Value) -> bool {
    let found = finding["found"].as_str().unwrap_or_default();
    found.ends_with("none received: no Covalent node answers")
}

/// Returns whether a finding reports frames for which a pipe had no space.
fn is_of_full_pipes(finding: &Value) -> bool {
    let check = finding["check"].as_str().unwrap_or_default();
    check.ends_with(": full pipes")
}

/// Returns whether a finding reports only frames that were lost with a removed interface.
fn is_lost_with_its_interface(finding: &Value) -> bool {
    let text = |key: &str| finding[key].as_str().unwrap_or_default();
    let causes = text("found").split(" so far").next().unwrap_or_default();
    text("check").ends_with(": frames lost")
        && causes.ends_with(" as tx_dropped_by_device")
        && !causes.contains(',')
}
