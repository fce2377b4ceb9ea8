//! Attaching to interfaces: modes, neighbors, and the state left when the process dies.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use covalent_ebpf::{
    AttachMode, AttachPoint, EbpfError, EffectiveMode, Steering, attached_programs,
};

use crate::{
    require_root,
    support::{
        namespace::in_new_namespace,
        rtnetlink::{attach_without_link, remove, set_mtu, veth_pair},
    },
};

const LOOPBACK: u32 = 1;
const HOLDER: &str = "COVALENT_TEST_HOLD_INTERFACE";

#[test]
fn native_and_generic_match_what_the_kernel_reports() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(1);
        let mut steering = Steering::load().unwrap();
        assert_eq!(steering.effective_mode().unwrap(), None);
        for (requested, effective, at) in [
            (
                AttachMode::Native,
                EffectiveMode::Native,
                AttachPoint::Native,
            ),
            (AttachMode::Auto, EffectiveMode::Native, AttachPoint::Native),
            (
                AttachMode::Generic,
                EffectiveMode::Generic,
                AttachPoint::Generic,
            ),
        ] {
            assert_eq!(steering.attach(pair.a, "a", requested).unwrap(), effective);
            assert_eq!(steering.effective_mode().unwrap(), Some(effective));
            assert!(steering.native_refusal().is_none());
            // `Steering::attached_programs` excludes its own program. The free function includes
            // it.
            assert_eq!(steering.attached_programs(pair.a).unwrap(), []);
            let programs = attached_programs(pair.a).unwrap();
            assert_eq!(
                (programs.len(), programs[0].id, programs[0].at),
                (1, steering.program_id(), at)
            );
            assert_eq!(programs[0].name.as_deref(), Some("steer"));
            assert_eq!(programs[0].link_ids.len(), 1);
            assert_eq!(attached_programs(pair.b).unwrap(), []);
            steering.detach();
            assert_eq!(steering.effective_mode().unwrap(), None);
            assert_eq!(attached_programs(pair.a).unwrap(), []);
        }
    });
}

#[test]
fn dropping_it_detaches() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(1);
        let mut steering = Steering::load().unwrap();
        steering.attach(pair.a, "a", AttachMode::Native).unwrap();
        let error = steering
            .attach(pair.b, "b", AttachMode::Native)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "this program is attached to a already: load one for each interface"
        );
        // A child that was forked at the wrong moment has copies of all descriptors.
        let copies = copies_of_all_links();
        assert!(!copies.is_empty());
        drop(steering);
        assert_eq!(attached_programs(pair.a).unwrap(), []);
        drop(copies);
    });
}

/// Copies of every descriptor of an attachment in this process, other tests' among them.
fn copies_of_all_links() -> Vec<OwnedFd> {
    let mut copies = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        // Other tests open and close theirs meanwhile.
        if fs::read_link(&path).is_ok_and(|target| target.as_os_str() == "anon_inode:bpf_link") {
            let number = path.file_name().unwrap().to_str().unwrap();
            // SAFETY: F_DUPFD_CLOEXEC takes numbers only; one that is closed by now is refused.
            let copy = unsafe { libc::fcntl(number.parse().unwrap(), libc::F_DUPFD_CLOEXEC, 0) };
            if copy >= 0 {
                // SAFETY: the kernel made this descriptor in the line above. It has no other owner.
                copies.push(unsafe { OwnedFd::from_raw_fd(copy) });
            }
        }
    }
    copies
}

#[test]
fn auto_falls_back_to_generic_and_reports_why() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(1);
        let mut steering = Steering::load().unwrap();
        // Loopback has no native XDP.
        let error = steering
            .attach(LOOPBACK, "lo", AttachMode::Native)
            .unwrap_err();
        assert!(
            matches!(error, EbpfError::NativeRefused { .. }),
            "{error:?}"
        );
        assert!(
            error
                .to_string()
                .starts_with("lo: its driver has no native XDP"),
            "{error}"
        );
        assert_eq!(
            steering.attach(LOOPBACK, "lo", AttachMode::Auto).unwrap(),
            EffectiveMode::Generic
        );
        let refusal = steering.native_refusal().unwrap().to_string();
        assert!(
            refusal.starts_with("lo: its driver has no native XDP"),
            "{refusal}"
        );
        steering.detach();
        // A veth whose peer may send frames larger than one buffer.
        set_mtu(pair.a, 9_000);
        set_mtu(pair.b, 9_000);
        let error = steering
            .attach(pair.a, "a", AttachMode::Native)
            .unwrap_err()
            .to_string();
        assert!(error.contains("it is 9000 here"), "{error}");
        assert_eq!(
            steering.attach(pair.a, "a", AttachMode::Auto).unwrap(),
            EffectiveMode::Generic
        );
        assert!(steering.native_refusal().is_some());
        steering.detach();
        set_mtu(pair.a, 1_500);
        set_mtu(pair.b, 1_500);
        assert_eq!(
            steering.attach(pair.a, "a", AttachMode::Auto).unwrap(),
            EffectiveMode::Native
        );
        assert!(steering.native_refusal().is_none());
    });
}

#[test]
fn a_second_program_is_refused_and_the_first_is_named() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(1);
        let mut first = Steering::load().unwrap();
        let mut second = Steering::load().unwrap();
        for (there, at) in [
            (AttachMode::Native, "native"),
            (AttachMode::Generic, "generic"),
        ] {
            first.attach(pair.a, "a", there).unwrap();
            let id = first.program_id();
            for requested in [AttachMode::Native, AttachMode::Generic, AttachMode::Auto] {
                let error = second.attach(pair.a, "a", requested).unwrap_err();
                assert!(
                    matches!(&error, EbpfError::Busy { owner: Some(owner), .. } if owner.id == id),
                    "{error:?}"
                );
                let expected = format!(
                    "a already has an XDP program: `steer` (program id {id}, {at} mode); `bpftool \
                     link show id "
                );
                assert!(error.to_string().starts_with(&expected), "{error}");
                assert!(
                    error.to_string().contains("bpftool link detach id"),
                    "{error}"
                );
                assert_eq!(second.attached_programs(pair.a).unwrap().len(), 1);
                assert_eq!(second.effective_mode().unwrap(), None);
            }
            // The refusal left the first one alone, and the second one is as good as before.
            assert!(first.effective_mode().unwrap().is_some());
            second.attach(pair.b, "b", AttachMode::Native).unwrap();
            second.detach();
            first.detach();
        }
        second.attach(pair.a, "a", AttachMode::Native).unwrap();
    });
}

#[test]
fn a_program_without_a_link_is_named_with_the_command_that_removes_it() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(1);
        let other = Steering::load().unwrap();
        attach_without_link(pair.a, other.as_fd().as_raw_fd());
        let mut steering = Steering::load().unwrap();
        for requested in [AttachMode::Auto, AttachMode::Generic] {
            let error = steering
                .attach(pair.a, "a", requested)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(&format!("(program id {}, native mode)", other.program_id())),
                "{error}"
            );
            assert!(
                error.ends_with("run `ip link set dev a xdpdrv off`"),
                "{error}"
            );
        }
        attach_without_link(pair.a, -1);
        steering.attach(pair.a, "a", AttachMode::Native).unwrap();
    });
}

#[test]
fn a_missing_interface_is_reported_as_missing() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(1);
        let mut steering = Steering::load().unwrap();
        let error = steering
            .attach(pair.a, "eth7", AttachMode::Auto)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("index {} is the interface a and not eth7", pair.a)),
            "{error}"
        );
        steering.attach(pair.a, "a", AttachMode::Native).unwrap();
        remove(pair.a);
        assert_eq!(steering.effective_mode().unwrap(), None);
        steering.detach();
        let error = steering.attach(pair.a, "a", AttachMode::Auto).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("there is no interface a (index {})", pair.a)),
            "{error}"
        );
        assert!(matches!(
            attached_programs(pair.a),
            Err(EbpfError::NoSuchInterface { .. })
        ));
        let pair = veth_pair(1);
        steering.attach(pair.a, "a", AttachMode::Native).unwrap();
    });
}

/// Not a test of its own: the process that the next test kills.
#[test]
#[ignore = "the child of kill_minus_nine_detaches"]
fn hold_an_interface() {
    let Ok(ifindex) = env::var(HOLDER) else {
        return;
    };
    let mut steering = Steering::load().unwrap();
    steering
        .attach(ifindex.parse().unwrap(), "a", AttachMode::Native)
        .unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nholding {}", steering.program_id()).unwrap();
    out.flush().unwrap();
    // Bounded, in case the parent dies before it kills this process.
    thread::sleep(Duration::from_secs(30));
}

#[test]
fn kill_minus_nine_detaches() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(1);
        // A child is born into its parent thread's namespace.
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "attach::hold_an_interface",
                "--ignored",
                "--nocapture",
            ])
            .env(HOLDER, pair.a.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let id = lines
            .map_while(Result::ok)
            .find_map(|line| {
                line.strip_prefix("holding ")
                    .map(|id| id.parse::<u32>().unwrap())
            })
            .expect("the child attaches");
        let programs = attached_programs(pair.a).unwrap();
        assert_eq!((programs.len(), programs[0].id), (1, id));
        child.kill().unwrap();
        child.wait().unwrap();
        // The last reference to the link may be released a moment after the process is reaped.
        let deadline = Instant::now() + Duration::from_secs(5);
        while !attached_programs(pair.a).unwrap().is_empty() {
            assert!(
                Instant::now() < deadline,
                "the program outlived its process"
            );
            thread::sleep(Duration::from_millis(2));
        }
        let mut steering = Steering::load().unwrap();
        steering.attach(pair.a, "a", AttachMode::Native).unwrap();
    });
}
