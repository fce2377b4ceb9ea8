//! Checks of the interfaces of AF_XDP ports. Each a function of the facts alone.

use covalent_api::{
    control::{InterfaceStatus, XdpProgram},
    outdated::outdated,
    status::{NodeStatus, PortStatus},
};
use covalent_config::{
    Config, CopyMode, LINK_MTU_BYTES_MIN, MTU_BYTES_MAX, PortConfig, PortKind, XdpMode,
};
use covalent_ebpf::Holder;

use super::{
    driver,
    facts::{Daemon, HeldProgram, Named, NamedInterface},
    finding::Finding,
};
use crate::netlink::{self, Interface};

/// Runs every check of one AF_XDP port. If the interface does not exist, that is the only finding.
pub fn port(config: &Config, named: &NamedInterface, daemon: &Daemon) -> Vec<Finding> {
    let Some(PortConfig {
        kind: PortKind::AfXdp {
            queues, xdp, copy, ..
        },
        link,
        ..
    }) = config.port.iter().find(|port| port.name == named.port)
    else {
        return Vec::new();
    };
    let name = &named.interface;
    let Some(found) = &named.found else {
        return vec![Finding::failed(
            format!("port {}: interface", named.port),
            format!(
                "there is no interface `{name}` in this network namespace{}",
                netlink::suggestion(&named.similar)
            ),
            "correct the name in the file; if the interface appears later, covalent-control has \
             the port opened; `ip link` lists those that exist",
        )];
    };
    let mut findings = vec![
        interface(named, found),
        queue_count(named, found, *queues),
        mtu(named, found, *link),
    ];
    findings.extend(
        named
            .programs
            .iter()
            .map(|held| occupied(named, held, daemon)),
    );
    findings.extend(virtual_interface(named, *xdp, *copy));
    findings
}

fn interface(named: &NamedInterface, found: &Interface) -> Finding {
    let check = format!("port {}: interface", named.port);
    let driver = named.driver.as_deref().unwrap_or("unknown driver");
    if found.up && found.carrier {
        return Finding::fine(check, format!("{} ({driver}) is up", named.interface));
    }
    if found.up {
        return Finding::warning(
            check,
            format!(
                "{} ({driver}) is up and has no carrier: its cable is out, or the other end is \
                 down",
                named.interface
            ),
            "check the cable and the other end (there: ip link set INTERFACE up); the port resumes \
             when the carrier returns",
        );
    }
    Finding::warning(
        check,
        format!("{} ({driver}) is down", named.interface),
        format!(
            "covalent-control sets it up if control.bring_up is true; else: ip link set {} up",
            named.interface
        ),
    )
}

/// Compares the configured queues of a port with the existing ones. The port receives frames only
/// on queues that have a socket; the kernel gets the frames of all other queues.
fn queue_count(named: &NamedInterface, found: &Interface, wanted: u32) -> Finding {
    let check = format!("port {}: queues", named.port);
    let name = &named.interface;
    let channels = named
        .nic
        .channels
        .filter(|channels| channels.receiving() > 0);
    let there = channels.map_or(found.rx_queues, |channels| channels.receiving());
    let usable = match (
        driver::gives_half_of_the_queues(named.driver.as_deref()),
        channels,
    ) {
        (true, Some(channels)) if channels.combined_max > 0 => (channels.combined_max / 2).max(1),
        (true, _) => (there / 2).max(1),
        (false, _) => there,
    };
    if there > usable && wanted <= usable {
        return Finding::failed(
            check,
            format!(
                "{name} has {there}, and its driver takes as many again to send XDP frames: it \
                 refuses a program above {usable}"
            ),
            format!("ethtool -L {name} combined {usable}"),
        );
    }
    if wanted > usable.min(there) {
        let half = if usable < there {
            ", of which its driver gives XDP half"
        } else {
            ""
        };
        let most = usable.min(there);
        return Finding::failed(
            check,
            format!("queues = {wanted}, but {name} has {there}{half}"),
            format!("queues = {most}, or more queues: ethtool -L {name} combined {wanted}"),
        );
    }
    if wanted != 0 && wanted < there {
        let switch = match channels {
            Some(channels) if channels.combined == 0 => "rx",
            _ => "combined",
        };
        return Finding::warning(
            check,
            format!(
                "queues = {wanted}, but {name} spreads frames over {there}: those that it puts on \
                 the others go to the kernel, those of the link and of pipes too"
            ),
            format!(
                "queues = 0 for all of them, or fewer there: ethtool -L {name} {switch} {wanted}"
            ),
        );
    }
    Finding::fine(check, format!("{there} of {there}"))
}

fn mtu(named: &NamedInterface, found: &Interface, link: bool) -> Finding {
    let check = format!("port {}: MTU", named.port);
    if link && found.mtu_bytes < LINK_MTU_BYTES_MIN {
        return Finding::failed(
            check,
            format!(
                "{} bytes, but the frames of a link need {LINK_MTU_BYTES_MIN}: under load it would \
                 fail again and again",
                found.mtu_bytes
            ),
            format!(
                "ip link set {} mtu 1500, and the same at the other end of the cable",
                named.interface
            ),
        );
    }
    if found.mtu_bytes <= MTU_BYTES_MAX {
        return Finding::fine(check, format!("{} bytes", found.mtu_bytes));
    }
    Finding::failed(
        check,
        format!(
            "{} bytes, but a frame must fit one buffer of packet memory: at most {MTU_BYTES_MAX}",
            found.mtu_bytes
        ),
        format!("ip link set {} mtu {MTU_BYTES_MAX}", named.interface),
    )
}

/// Whether the running node has attached the program.
fn is_own(held: &HeldProgram, daemon: &Daemon) -> bool {
    let held_by = |pid: u32| held.holders.iter().any(|holder| holder.pid == pid);
    match daemon {
        Daemon::Absent => false,
        Daemon::Answers(running) => {
            let status = &running.after;
            let mut facts = status.ports.iter().filter_map(|port| port.facts.as_ref());
            facts.any(|facts| facts.program_id == held.program.id) || held_by(status.pid)
        }
        Daemon::Silent { pid, .. } if *pid > 0 => held_by(pid.unsigned_abs()),
        // It cannot be asked.
        Daemon::Silent { .. } | Daemon::Refused { .. } => held.node.is_some(),
    }
}

/// An XDP program on the interface: this node's own, another node's, or another program's.
fn occupied(named: &NamedInterface, held: &HeldProgram, daemon: &Daemon) -> Finding {
    let check = format!("port {}: XDP program", named.port);
    let HeldProgram {
        program,
        holders,
        node,
    } = held;
    if is_own(held, daemon) {
        let holder = holders.iter().find(|holder| holder.is_daemon());
        let process = holder.map_or_else(String::new, |it| format!(", process {}", it.pid));
        return Finding::fine(check, format!("{program} of covalentd{process}"));
    }
    if let Some(other) = node {
        return Finding::failed(
            check,
            format!(
                "{} belongs to another node: {} has the XDP program {program} attached",
                named.interface, other.found
            ),
            format!("{}; or name another interface in this file", other.cure),
        );
    }
    let list: Vec<String> = holders
        .iter()
        .map(|Holder { pid, name }| format!("{name} (process {pid})"))
        .collect();
    let holder_names = if list.is_empty() {
        "no process that can be seen".to_owned()
    } else {
        list.join(", ")
    };
    Finding::failed(
        check,
        format!(
            "{} has the XDP program {program} attached already, held by {holder_names}",
            named.interface
        ),
        program.how_to_detach(&named.interface),
    )
}

/// Checks whether the ports of a running node match their interfaces.
pub fn running(named: &Named, status: &NodeStatus) -> Vec<Finding> {
    let ports = status.ports.iter();
    ports
        .filter_map(|port| {
            let interface = named.interfaces.iter().find(|it| it.port == port.name);
            opened(port, interface)
        })
        .collect()
}

fn opened(port: &PortStatus, named: Option<&NamedInterface>) -> Option<Finding> {
    const MENDS: &str = "covalent-control reopens it as soon as that is possible: check that it \
                         runs, and its log";
    let check = format!("port {}: opened", port.name);
    if let Some(reason) = &port.absent {
        return Some(Finding::failed(check, format!("not: {reason}"), MENDS));
    }
    let (facts, named) = (port.facts.as_ref()?, named?);
    let found = named.found.as_ref()?;
    let programs = named.programs.iter().map(|held| XdpProgram {
        mode: String::new(),
        id: held.program.id,
    });
    // Here the kernel reports only the number of queues that the interface was created with.
    let now = InterfaceStatus {
        index: Some(found.index),
        mtu_bytes: found.mtu_bytes,
        address: found.address.clone(),
        programs: programs.collect(),
        ..InterfaceStatus::absent(&named.port, &named.interface)
    };
    Some(match outdated(facts, &now) {
        None => Finding::fine(check, format!("on {} as it is now", named.interface)),
        Some(why) => Finding::warning(
            check,
            format!("on {} as it was: {why}", named.interface),
            MENDS,
        ),
    })
}

/// Returns a finding for a mode that a veth does not support.
fn virtual_interface(named: &NamedInterface, xdp: XdpMode, copy: CopyMode) -> Option<Finding> {
    if named.driver.as_deref() != Some("veth") {
        return None;
    }
    let check = format!("port {}: mode", named.port);
    if copy == CopyMode::ZeroCopy {
        return Some(Finding::failed(
            check,
            "copy = \"zero_copy\", but veth has no zero-copy",
            "copy = \"auto\"",
        ));
    }
    (xdp == XdpMode::Generic).then(|| {
        Finding::warning(
            check,
            "xdp = \"generic\", but veth has the faster native hook",
            "xdp = \"auto\"",
        )
    })
}

#[cfg(test)]
mod tests {
    use covalent_api::{agreement::PortFacts, control::Channels};
    use covalent_config::other_node::OtherNode;
    use covalent_ebpf::{AttachPoint, AttachedProgram};

    use super::{
        super::{facts::process::ProcessState, finding::Level, samples},
        *,
    };

    fn only<'a>(findings: &'a [Finding], ending: &str) -> &'a Finding {
        findings
            .iter()
            .find(|finding| finding.check.ends_with(ending))
            .expect("the check was made")
    }

    #[test]
    fn a_good_interface_is_fine_throughout() {
        let findings = port(
            &samples::af_xdp_config(),
            &samples::interface(),
            &Daemon::Absent,
        );
        assert!(
            findings.iter().all(|finding| finding.level == Level::Fine),
            "{findings:?}"
        );
    }

    #[test]
    fn a_missing_interface_is_the_only_finding() {
        let gone = NamedInterface {
            found: None,
            similar: vec!["eth0".into()],
            ..samples::interface()
        };
        let findings = port(&samples::af_xdp_config(), &gone, &Daemon::Absent);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].level == Level::Failed && findings[0].found.contains("eth1"));
        assert!(findings[0].found.ends_with("; there is `eth0`"));
    }

    #[test]
    fn a_port_that_differs_from_its_interface_is_reported_with_the_reason() {
        let port = |facts: bool, absent: Option<&str>| PortStatus {
            name: "p0".into(),
            kind: "af_xdp".into(),
            absent: absent.map(Into::into),
            facts: facts.then(|| PortFacts {
                index: 2,
                address: "02:00:00:00:00:01".into(),
                mtu_bytes: 1500,
                queues: 2,
                all_queues: true,
                program_id: 42,
            }),
            ..crate::status::sample_port()
        };
        let named = |change: &dyn Fn(&mut Interface)| {
            let mut named = NamedInterface {
                programs: vec![HeldProgram {
                    program: AttachedProgram {
                        id: 42,
                        name: None,
                        at: AttachPoint::Native,
                        link_ids: Vec::new(),
                    },
                    holders: Vec::new(),
                    node: None,
                }],
                ..samples::interface()
            };
            change(named.found.as_mut().expect("found"));
            named
        };
        let opened_on = |port: &PortStatus, named: &NamedInterface| {
            opened(port, Some(named)).expect("there is a finding")
        };
        let same = named(&|_| {});
        assert_eq!(opened_on(&port(true, None), &same).level, Level::Fine);
        let another = opened_on(&port(true, None), &named(&|it| it.index = 5));
        assert_eq!(another.level, Level::Warning);
        assert!(another.found.contains("index 2 then, 5 now"), "{another:?}");
        let mtu = opened_on(&port(true, None), &named(&|it| it.mtu_bytes = 1400));
        assert!(mtu.found.contains("1500 and is 1400"), "{mtu:?}");
        let mut bare = named(&|_| {});
        bare.programs.clear();
        let gone = opened_on(&port(true, None), &bare);
        assert!(gone.found.contains("id 42"), "{gone:?}");
        assert!(gone.cure.contains("covalent-control"));
        let absent = opened_on(&port(false, Some("it was removed")), &same);
        assert!(
            absent.level == Level::Failed && absent.found.contains("it was removed"),
            "{absent:?}"
        );
        // A cable has no interface.
        assert_eq!(opened(&port(false, None), None), None);
    }

    #[test]
    fn too_many_queues_and_a_driver_that_halves_them() {
        let mut named = samples::interface();
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        assert_eq!(only(&findings, "queues").found, "2 of 2");

        named.driver = Some("ena".into());
        let channels = |combined, combined_max| {
            Some(Channels {
                combined,
                combined_max,
                ..Channels::default()
            })
        };
        named.nic.channels = channels(4, 4);
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        let queues = only(&findings, "queues");
        assert_eq!(queues.level, Level::Failed);
        assert_eq!(queues.cure, "ethtool -L eth1 combined 2");
        named.nic.channels = channels(2, 4);
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        assert_eq!(only(&findings, "queues").level, Level::Fine);
        named.nic.channels = channels(1, 1);
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        let queues = only(&findings, "queues");
        assert!(
            queues.level == Level::Failed && queues.cure.contains("queues = 1"),
            "{queues:?}"
        );
    }

    #[test]
    fn queues_whose_frames_bypass_the_dataplane_are_reported() {
        let mut named = samples::interface();
        let receiving = |rx, combined| {
            Some(Channels {
                rx,
                combined,
                ..Channels::default()
            })
        };
        named.nic.channels = receiving(0, 8);
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        let queues = only(&findings, "queues");
        assert_eq!(queues.level, Level::Warning);
        assert!(
            queues.found.contains("over 8") && queues.cure.ends_with("combined 2"),
            "{queues:?}"
        );
        named.nic.channels = receiving(4, 0);
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        assert!(
            only(&findings, "queues")
                .cure
                .ends_with("ethtool -L eth1 rx 2")
        );
        let mut config = samples::af_xdp_config();
        let PortKind::AfXdp { queues, .. } = &mut config.port[0].kind else {
            unreachable!("the sample is AF_XDP")
        };
        *queues = 0;
        let findings = port(&config, &named, &Daemon::Absent);
        assert_eq!(only(&findings, "queues").found, "4 of 4");
    }

    #[test]
    fn an_interface_without_a_carrier_differs_from_one_that_is_down() {
        let mut named = samples::interface();
        named.found.as_mut().expect("found").carrier = false;
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        let interface = only(&findings, "interface");
        assert!(interface.level == Level::Warning && interface.found.contains("no carrier"));
        named.found.as_mut().expect("found").up = false;
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        assert!(
            only(&findings, "interface")
                .cure
                .contains("ip link set eth1 up")
        );
    }

    #[test]
    fn an_mtu_above_the_daemons_limit_is_refused_with_the_limit() {
        let mut named = samples::interface();
        named.found.as_mut().expect("found").mtu_bytes = 9000;
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        assert_eq!(only(&findings, "MTU").cure, "ip link set eth1 mtu 1770");
        named.found.as_mut().expect("found").mtu_bytes = 1400;
        let findings = port(&samples::af_xdp_config(), &named, &Daemon::Absent);
        let too_small = only(&findings, "MTU");
        assert!(too_small.found.contains("need 1472"), "{too_small:?}");
    }

    #[test]
    fn an_attached_program_is_named_with_its_holder_unless_it_is_ours() {
        let finding = |holders: &[(u32, &str)], daemon: &Daemon| {
            let holders: Vec<Holder> = holders
                .iter()
                .map(|&(pid, name)| Holder {
                    pid,
                    name: name.into(),
                })
                .collect();
            let other = holders.iter().find(|holder| holder.is_daemon());
            let program = AttachedProgram {
                id: 42,
                name: Some("balancer".into()),
                at: AttachPoint::Native,
                link_ids: vec![9],
            };
            let held = HeldProgram {
                program,
                node: other.map(|it| OtherNode {
                    found: format!("node b (covalentd, process {})", it.pid),
                    cure: "`covalent down --config /b.toml` ends that node".into(),
                }),
                holders,
            };
            let named = NamedInterface {
                programs: vec![held],
                ..samples::interface()
            };
            let findings = port(&samples::af_xdp_config(), &named, daemon);
            only(&findings, "XDP program").clone()
        };
        let orphan = finding(&[], &Daemon::Absent);
        assert_eq!(orphan.level, Level::Failed);
        assert!(orphan.cure.contains("bpftool link detach"), "{orphan:?}");
        let foreign = finding(&[(77, "katran")], &Daemon::Absent);
        assert_eq!(foreign.level, Level::Failed);
        for wanted in ["42", "balancer", "katran (process 77)", "eth1"] {
            assert!(foreign.found.contains(wanted), "{foreign:?}");
        }

        let both = [(77, "katran"), (78, "covalentd")];
        let running = |pid: u32, program_id: Option<u32>| {
            let mut running = samples::running();
            running.after.pid = pid;
            running.after.ports = vec![PortStatus {
                facts: program_id.map(|program_id| PortFacts {
                    index: 2,
                    address: "02:00:00:00:00:01".into(),
                    mtu_bytes: 1500,
                    queues: 2,
                    all_queues: true,
                    program_id,
                }),
                ..crate::status::sample_port()
            }];
            Daemon::Answers(Box::new(running))
        };
        let silent = |pid| Daemon::Silent {
            pid,
            state: ProcessState::Gone,
        };
        for (daemon, is_own) in [
            (running(78, None), true),
            // In another process namespace.
            (running(1, Some(42)), true),
            (running(79, Some(43)), false),
            (silent(78), true),
            (silent(79), false),
            (Daemon::Absent, false),
        ] {
            let finding = finding(&both, &daemon);
            assert_eq!(
                finding.level == Level::Fine,
                is_own,
                "{daemon:?}: {finding:?}"
            );
            if !is_own {
                for wanted in ["eth1", "node b", "process 78"] {
                    assert!(finding.found.contains(wanted), "{finding:?}");
                }
                assert!(finding.cure.contains("covalent down --config /b.toml"));
                assert!(!finding.cure.contains("bpftool"), "{finding:?}");
            }
        }
    }

    #[test]
    fn missing_features_of_veth_are_reported() {
        let mut named = samples::interface();
        named.driver = Some("veth".into());
        let mut config = samples::af_xdp_config();
        assert!(
            port(&config, &named, &Daemon::Absent)
                .iter()
                .all(|finding| finding.level == Level::Fine)
        );
        let PortKind::AfXdp { copy, .. } = &mut config.port[0].kind else {
            unreachable!("the sample is AF_XDP")
        };
        *copy = CopyMode::ZeroCopy;
        assert_eq!(
            only(&port(&config, &named, &Daemon::Absent), "mode").level,
            Level::Failed
        );
    }
}
