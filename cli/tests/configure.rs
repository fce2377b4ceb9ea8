//! `covalent configure` and `covalent config auto`, on interfaces in the test's own network
//! namespace.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Duration,
};

use covalent_ebpf::{AttachMode, Steering};
use nix::sched::{CloneFlags, setns};
use serde_json::Value;
use support::{covalent, is_root, wait_until};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A network namespace with a veth pair of four queues, and a configuration for one end.
struct Host {
    place: tempfile::TempDir,
    namespace: String,
}

impl Host {
    fn new(name: &str, more: &str) -> Self {
        let host = Self {
            place: tempfile::tempdir().unwrap(),
            namespace: format!("cvt-cfg-{name}-{}", std::process::id()),
        };
        // Others may look, too.
        fs::set_permissions(host.place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let place = host.place.path().display();
        let text = format!(
            "[node]\nname = \"a\"\nruntime_dir = \"{place}/run\"\nstate_dir = \"{place}/state\"\n\
             [dataplane]\nhuge_pages = \"never\"\n{more}\
             [[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface = \"v0\"\nqueues = 2\n"
        );
        fs::write(host.file(), text).unwrap();
        run(Command::new("ip").args(["netns", "add", &host.namespace]));
        let queues = ["numtxqueues", "4", "numrxqueues", "4"];
        run(host
            .inside("ip")
            .args(["link", "add", "v0"])
            .args(queues)
            .args(["type", "veth", "peer", "name", "v1"])
            .args(queues));
        host
    }

    fn file(&self) -> PathBuf {
        self.place.path().join("covalent.toml")
    }

    fn record(&self) -> PathBuf {
        self.place.path().join("run/configure.record")
    }

    /// A program in the namespace.
    fn inside(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace])
            .arg(program)
            .env("COLUMNS", "500");
        command
    }

    /// `covalent`, in the namespace.
    fn command(&self, arguments: &[&str]) -> Command {
        let of = covalent(self.place.path());
        let mut command = self.inside(of.get_program());
        for (name, value) in of.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(arguments).env("COVALENT_CONFIG", self.file());
        command
    }

    /// Returns the exit status and all output.
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        printed(&self.command(arguments).output().unwrap())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--format", "json"]);
        let output = self.command(&arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Returns the kernel's state of the interface's queues, offloads and MTU.
    fn state(&self) -> String {
        ["-l", "-k"]
            .map(|question| {
                let output = self.inside("ethtool").args([question, "v0"]).output();
                String::from_utf8(output.unwrap().stdout).unwrap()
            })
            .join("")
            + &self.mtu()
    }

    fn mtu(&self) -> String {
        let output = self
            .inside("ip")
            .args(["-o", "link", "show", "v0"])
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "mtu").unwrap();
        words[at + 1].to_owned()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        run(Command::new("ip").args(["netns", "del", &self.namespace]));
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

fn printed(output: &Output) -> (i32, String) {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.code().unwrap_or(-1), text)
}

/// Queues, offloads and the MTU, all of which a veth has.
const VETH: &str =
    "[configure]\noffloads = [\"rx-vlan-offload\", \"tx-checksum-sctp\"]\nmtu = 1700\n";

#[test]
fn a_machine_is_made_ready_and_as_it_was_before() {
    if !is_root() {
        return;
    }
    let host = Host::new("whole", VETH);
    let before = host.state();

    // A check needs no privilege and changes nothing.
    let mut check = host.command(&["configure", "check"]);
    let check_unprivileged = {
        let inner: Vec<_> = check.get_args().map(ToOwned::to_owned).collect();
        // `ip netns exec` needs root; the program that it runs does not.
        let mut command = Command::new("ip");
        command
            .args(&inner[..3])
            .args([
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
            ])
            .args(&inner[3..])
            .env("COVALENT_CONFIG", host.file());
        command.output().unwrap()
    };
    let (code, text) = printed(&check_unprivileged);
    let (as_root, _) = printed(&check.output().unwrap());
    assert_eq!((code, as_root), (1, 1), "{text}");
    for wanted in [
        "ethtool -L v0 rx 2 tx 2",
        "ethtool -K v0 rx-vlan-hw-parse off",
        "ip link set dev v0 mtu 1700",
        "not offered by driver veth",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let (code, dry) = host.run(&["configure", "init", "--dry-run"]);
    assert!(
        code == 1 && dry.contains("ethtool -L v0 rx 2 tx 2"),
        "{dry}"
    );
    assert_eq!(host.state(), before);
    assert!(!host.record().exists());

    let (code, text) = host.run(&["configure", "init"]);
    assert_eq!(code, 0, "{text}");
    let commands = ["ethtool -L v0", "tx-checksum-sctp off", "mtu 1700"];
    let places = commands.map(|command| text.find(command).unwrap());
    assert!(places.is_sorted(), "in the order of the stages: {text}");
    let made = host.state();
    assert!(
        made.contains("rx-vlan-offload: off") && made.ends_with("1700"),
        "{made}"
    );
    assert_eq!(host.run(&["configure", "check"]).0, 0);

    // A second run has no further effect, and the first record stays.
    let record = fs::read(host.record()).unwrap();
    let (code, text) = host.run(&["configure", "init"]);
    assert!(code == 0 && !text.contains("ethtool"), "{text}");
    assert_eq!(fs::read(host.record()).unwrap(), record);

    let (code, dry) = host.run(&["configure", "fini", "--dry-run"]);
    assert!(
        code == 0 && dry.contains("ip link set dev v0 mtu 1500"),
        "{dry}"
    );
    assert_eq!(host.state(), made);
    let (code, text) = host.run(&["configure", "fini"]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.find("mtu 1500") < text.find("ethtool -L v0 rx 4 tx 4"),
        "in reverse: {text}"
    );
    assert_eq!(host.state(), before);
    assert!(!host.record().exists());
    let (code, text) = host.run(&["configure", "fini"]);
    assert!(code == 0 && text.contains("nothing is recorded"), "{text}");
}

#[test]
fn a_foreign_change_since_init_is_reported_and_kept() {
    if !is_root() {
        return;
    }
    let host = Host::new("left", VETH);
    assert_eq!(host.run(&["configure", "init"]).0, 0);
    run(host.inside("ip").args(["link", "set", "v0", "mtu", "1400"]));
    let (code, text) = host.run(&["configure", "fini"]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("changed to 1400") && text.contains("it was 1500"),
        "{text}"
    );
    let state = host.state();
    assert!(
        state.ends_with("1400") && state.contains("rx-vlan-offload: on"),
        "{state}"
    );
    assert!(!host.record().exists());

    // An interface that was made again is another one.
    assert_eq!(host.run(&["configure", "init"]).0, 0);
    run(host.inside("ip").args(["link", "del", "v0"]));
    run(host
        .inside("ip")
        .args(["link", "add", "v0", "type", "veth", "peer", "name", "v1"]));
    run(host.inside("ip").args(["link", "set", "v0", "mtu", "1700"]));
    let (code, text) = host.run(&["configure", "fini"]);
    assert!(code == 0 && text.contains("not there any more"), "{text}");
    assert_eq!(host.mtu(), "1700");
}

#[test]
fn all_changes_of_a_killed_command_are_undone() {
    if !is_root() {
        return;
    }
    let host = Host::new("killed", VETH);
    let before = host.state();
    let mut partial = 0;
    for round in 0..60 {
        let mut child = host
            .command(&["configure", "init"])
            .process_group(0)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // From before it does anything to behind its last step.
        let begun = match round % 3 {
            0 => None,
            1 => Some(host.place.path().join("run")),
            _ => Some(host.record()),
        };
        if let Some(begun) = begun {
            wait_until("it begins", PATIENCE, || {
                begun.exists() || child.try_wait().unwrap().is_some()
            });
        }
        thread::sleep(Duration::from_micros(600 * round));
        // Kill the whole group: `ip netns exec` becomes the command itself, and its children must
        // be killed too.
        let group = nix::unistd::Pid::from_raw(-i32::try_from(child.id()).unwrap());
        // It may have ended already.
        let _ = nix::sys::signal::kill(group, nix::sys::signal::Signal::SIGKILL);
        child.wait().unwrap();
        partial += u32::from(host.record().exists());
        let (code, text) = host.run(&["configure", "fini"]);
        assert_eq!(code, 0, "{round}: {text}");
        assert_eq!(host.state(), before, "{round}: {text}");
        assert!(!host.record().exists(), "{round}");
    }
    assert!(partial > 0, "none was killed behind its first line");
}

#[test]
fn a_foreign_xdp_program_is_named_and_nothing_is_changed() {
    if !is_root() {
        return;
    }
    let host = Host::new("held", VETH);
    let before = host.state();
    let namespace = fs::File::open(Path::new("/run/netns").join(&host.namespace)).unwrap();
    thread::scope(|scope| {
        let attached = scope.spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            let index = nix::net::if_::if_nametoindex("v0").unwrap();
            let mut steering = Steering::load().unwrap();
            steering.attach(index, "v0", AttachMode::Native).unwrap();
            (steering.program_id(), steering)
        });
        let (id, steering) = attached.join().unwrap();
        let (code, text) = host.run(&["configure", "init"]);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains(&format!("(program id {id}")), "{text}");
        assert!(text.contains("nothing was changed"), "{text}");
        assert_eq!(host.state(), before);
        assert!(!host.record().exists());
        // The other stages do their work without it.
        let (code, text) = host.run(&["configure", "init", "--only", "offloads"]);
        assert_eq!(code, 0, "{text}");
        assert_eq!(host.run(&["configure", "fini"]).0, 0);
        drop(steering);
    });
    assert_eq!(host.state(), before);
}

#[test]
fn a_missing_interface_cannot_be_configured() {
    if !is_root() {
        return;
    }
    let host = Host::new("gone", "");
    run(host.inside("ip").args(["link", "del", "v0"]));
    let (code, text) = host.run(&["configure", "check"]);
    assert!(
        code == 2 && text.contains("no interface of that name"),
        "{text}"
    );
    let stages = host.json(&["configure", "check", "--only", "xdp,channels"]);
    let stages: Vec<_> = stages
        .as_array()
        .unwrap()
        .iter()
        .map(|report| (report["stage"].clone(), report["state"].clone()))
        .collect();
    assert_eq!(
        stages,
        [
            ("channels".into(), "cannot".into()),
            ("xdp".into(), "cannot".into())
        ]
    );
}

#[test]
fn huge_pages_are_reserved_and_released() {
    const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    if !is_root() {
        return;
    }
    // Tests and benchmarks that change the number take turns by this.
    let turn = fs::File::open(POOL).unwrap();
    turn.lock().unwrap();
    let reserved = || -> u32 { fs::read_to_string(POOL).unwrap().trim().parse().unwrap() };
    let before = reserved();
    let wanted = before + 3;
    let host = Host::new("pages", &format!("[configure]\nhuge_pages = {wanted}\n"));
    let (code, text) = host.run(&["configure", "init", "--only", "hugepages"]);
    assert!(text.contains(&format!("echo {wanted} > {POOL}")), "{text}");
    let made = reserved();
    let (undone, printed) = host.run(&["configure", "fini"]);
    // A machine without three free pages reports it.
    if made == wanted {
        assert_eq!(code, 0, "{text}");
    } else {
        assert!(code == 1 && text.contains("the kernel made it"), "{text}");
    }
    assert_eq!((undone, reserved()), (0, before), "{printed}");
}

#[test]
fn the_automatic_choice_is_shown_with_its_reason() {
    if !is_root() {
        return;
    }
    let host = Host::new("auto", "");
    let printed = host.json(&["config", "auto"]);
    assert_eq!(printed[0]["driver"], "veth");
    assert_eq!(printed[0]["auto"]["xdp"]["value"], "native");
    let why = printed[0]["auto"]["copy"]["why"].as_str().unwrap();
    assert!(why.contains("zero-copy"), "{printed}");
    assert_eq!(printed[0]["auto"]["queues"]["value"], 2);
    let (code, text) = host.run(&["config", "auto"]);
    for wanted in ["v0", "native", "since Linux 4.19", "need_wakeup"] {
        assert!(code == 0 && text.contains(wanted), "{wanted}: {text}");
    }
}
