//! Privileges that the loader needs, and its errors when they are missing. Capabilities belong to
//! the thread, so each test drops those of its own thread.

use std::thread;

use caps::{CapSet, Capability, CapsHashSet};
use covalent_ebpf::{
    Action, AttachMode, EbpfError, EffectiveMode, Key, Refusal, Steering, attached_programs,
};

use crate::{
    require_root,
    support::{namespace::in_new_namespace, rtnetlink::veth_pair},
};

const NEEDED: [Capability; 3] = [
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    Capability::CAP_NET_ADMIN,
];

fn keep(capabilities: &[Capability]) {
    let kept: CapsHashSet = capabilities.iter().copied().collect();
    caps::set(None, CapSet::Effective, &kept).unwrap();
    caps::set(None, CapSet::Permitted, &kept).unwrap();
}

#[test]
fn the_three_capabilities_that_the_error_names_are_enough() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(1);
        // aya detects the kernel's features once per process, and needs privilege for that.
        drop(Steering::load().unwrap());
        let mut other = Steering::load().unwrap();
        other.attach(pair.b, "b", AttachMode::Native).unwrap();
        keep(&NEEDED);
        let mut steering = Steering::load().unwrap();
        assert_eq!(
            steering.attach(pair.a, "a", AttachMode::Native).unwrap(),
            EffectiveMode::Native
        );
        // Another's program is found; its name takes CAP_SYS_ADMIN.
        let programs = attached_programs(pair.b).unwrap();
        assert_eq!(
            (programs[0].id, programs[0].name.as_deref()),
            (other.program_id(), None)
        );
        steering.detach();
        let error = steering
            .attach(pair.b, "b", AttachMode::Native)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!(
                "program id {} (native mode; its name needs CAP_SYS_ADMIN)",
                other.program_id()
            )),
            "{error}"
        );
    });
}

#[test]
fn a_missing_capability_is_named() {
    require_root!();
    // As above: the process detects the kernel's features before any capability is missing.
    drop(Steering::load().unwrap());
    for missing in NEEDED {
        thread::scope(|scope| {
            scope.spawn(|| {
                let rest: Vec<Capability> = NEEDED
                    .into_iter()
                    .filter(|&capability| capability != missing)
                    .collect();
                keep(&rest);
                let error = Steering::load().unwrap_err();
                let expected = Refusal::Capabilities(vec![missing]);
                assert!(
                    matches!(
                        &error,
                        EbpfError::NotPermitted { refusal, .. } if *refusal == expected,
                    ),
                    "{error:?}"
                );
                let expected = format!("this process lacks {missing}: run it as root");
                assert!(error.to_string().contains(&expected), "{error}");
            });
        });
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            keep(&[]);
            assert_eq!(
                Steering::load().unwrap_err().to_string(),
                "loading the XDP program is not permitted: it needs CAP_BPF, CAP_PERFMON and \
                 CAP_NET_ADMIN, and this \
                 process lacks CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN: run it as root, or with \
                 AmbientCapabilities=CAP_BPF \
                 CAP_PERFMON CAP_NET_ADMIN in its systemd unit"
            );
        });
    });
}

#[test]
fn once_attached_it_works_without_any_capability() {
    require_root!();
    in_new_namespace(|| {
        let pair = veth_pair(1);
        let mut steering = Steering::load().unwrap();
        steering.attach(pair.a, "a", AttachMode::Native).unwrap();
        keep(&[]);
        let key = Key::Port {
            proto: 17,
            dst_port: 53,
        };
        steering.insert(&key, Action::Dataplane).unwrap();
        steering
            .insert(
                &Key::Prefix {
                    dst: "10.0.0.0".parse().unwrap(),
                    len: 8,
                },
                Action::Kernel,
            )
            .unwrap();
        assert!(steering.remove(&key).unwrap());
        steering.set_default(Action::Dataplane).unwrap();
        steering.set_link_ethertype(0x88b5).unwrap();
        steering.clear_socket(0).unwrap();
        steering.counters().unwrap();
        assert_eq!(
            steering.effective_mode().unwrap(),
            Some(EffectiveMode::Native)
        );
        steering.detach();
        assert_eq!(attached_programs(pair.a).unwrap(), []);
    });
}
