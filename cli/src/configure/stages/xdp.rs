//! Whether an XDP program can be attached to an interface.

use covalent_config::{
    Amount, Config, CopyMode, XdpMode,
    auto::{Copying, Hook, Wishes, choose},
};
use covalent_ebpf::Holder;

use super::{
    super::{
        facts::{Facts, Named, wishes},
        plan::{Report, State},
        setting::Setting,
        stage::Stage,
    },
    one_step,
};
use crate::netlink::Interface;

const STAGE: Stage = Stage::Xdp;

/// The name of the daemon's program.
const DAEMON: &str = "covalentd";

/// Reports obstacles to the XDP program, and the mode that it would have. Only the MTU is changed,
/// if the configuration requests it. Another owner's XDP program is never removed.
pub fn inspect(config: &Config, facts: &Facts, named: &Named, found: &Interface) -> Report {
    let subject = &named.name;
    let choices = named.choices(facts.linux);
    // Only root sees which process holds a program.
    let is_ours = |holders: &[Holder]| {
        let unseen = holders.is_empty() && !facts.is_root && facts.node_runs;
        unseen || holders.iter().any(|holder| holder.name == DAEMON)
    };
    if let Some((program, holders)) = (named.programs.iter()).find(|(_, holders)| !is_ours(holders))
    {
        let list: Vec<String> = holders
            .iter()
            .map(|holder| format!("{} (process {})", holder.name, holder.pid))
            .collect();
        let holder_names = match list.is_empty() {
            true => "no process that can be seen".to_owned(),
            false => list.join(", "),
        };
        return Report::cannot(
            STAGE,
            subject,
            format!("the XDP program {program} is attached already, held by {holder_names}"),
            program.how_to_detach(subject),
        );
    }
    if let Some((why, cure)) = impossible(facts, named) {
        return Report::cannot(STAGE, subject, why, cure);
    }
    let most = choices.mtu_bytes_max.value;
    let now = found.mtu_bytes;
    let wanted = match config.configure.mtu {
        Amount::Keep => now,
        Amount::Auto => now.min(most),
        Amount::Exactly(bytes) => bytes,
    };
    if wanted > most {
        return Report::cannot(
            STAGE,
            subject,
            format!(
                "an MTU of {wanted} bytes, and {most} are the most: {}",
                choices.mtu_bytes_max.why
            ),
            format!(
                "`configure.mtu = \"auto\"` lowers it; or `ip link set dev {subject} mtu {most}`"
            ),
        );
    }
    let (queues, queues_most) = (named.queues(), choices.queues_most.value);
    if queues > queues_most && config.configure.channels == Amount::Keep {
        return Report::cannot(
            STAGE,
            subject,
            format!(
                "{queues} queues, and {queues_most} are the most: {}",
                choices.queues_most.why
            ),
            "`configure.channels = \"auto\"`",
        );
    }
    if wanted != now {
        let setting = Setting::Mtu {
            interface: subject.clone(),
            index: found.index,
        };
        let why = match config.configure.mtu {
            Amount::Exactly(bytes) => format!("configured: `configure.mtu = {bytes}`"),
            Amount::Auto | Amount::Keep => choices.mtu_bytes_max.why,
        };
        return one_step(
            STAGE,
            named,
            setting,
            now.to_string(),
            wanted.to_string(),
            why,
        );
    }
    let mode = format!(
        "{} ({}), {} ({})",
        choices.xdp.value, choices.xdp.why, choices.copy.value, choices.copy.why
    );
    if queues > queues_most {
        let outcome = format!(
            "{queues} queues, and {queues_most} are the most: {}; the stage `channels` mends it",
            choices.queues_most.why
        );
        return Report::new(STAGE, subject, State::NotAsWanted, outcome);
    }
    let attached = match named.programs.is_empty() {
        true => "free",
        false if facts.is_root => "the daemon's program is attached",
        false => "a program is attached, the daemon's as far as this user sees",
    };
    Report::as_wanted(STAGE, subject, format!("{attached}; {mode}"))
}

/// Returns why the port's configuration is impossible, as far as the driver is known, and the
/// configuration to use instead.
fn impossible(facts: &Facts, named: &Named) -> Option<(String, &'static str)> {
    let wishes = wishes(&named.port);
    let open = Wishes {
        xdp: XdpMode::Auto,
        copy: CopyMode::Auto,
        ..wishes
    };
    let known = choose(&named.auto_facts(facts.linux), open);
    if wishes.xdp == XdpMode::Native && known.xdp.value == Hook::Generic {
        let why = format!("`xdp = \"native\"`, but {}", known.xdp.why);
        return Some((why, "`xdp = \"auto\"`"));
    }
    let copies = known.copy.value == Copying::Copy;
    (wishes.copy == CopyMode::ZeroCopy && copies).then(|| {
        let why = format!("`copy = \"zero_copy\"`, but {}", known.copy.why);
        (why, "`copy = \"auto\"`")
    })
}

#[cfg(test)]
mod tests {
    use covalent_config::PortKind;
    use covalent_ebpf::{AttachPoint, AttachedProgram};

    use super::{super::samples, *};

    fn report(more: &str, change: &dyn Fn(&mut Named)) -> Report {
        report_on(samples::facts(), more, change)
    }

    fn report_on(mut facts: Facts, more: &str, change: &dyn Fn(&mut Named)) -> Report {
        change(&mut facts.interfaces[0]);
        let named = &facts.interfaces[0];
        let found = named.found.as_ref().expect("the sample is there");
        inspect(&samples::config(more), &facts, named, found)
    }

    fn mtu(bytes: u32) -> impl Fn(&mut Named) {
        move |named| named.found.as_mut().expect("the sample is there").mtu_bytes = bytes
    }

    #[test]
    fn a_free_interface_is_reported_with_its_mode_and_the_reason() {
        let outcome = report("", &|_| {});
        assert_eq!(outcome.state, State::AsWanted);
        for word in ["free", "native", "zero-copy", "since Linux 5.5"] {
            assert!(outcome.found.contains(word), "{word}: {outcome:?}");
        }
    }

    #[test]
    fn a_foreign_xdp_program_is_named_and_left_alone() {
        let program = |holders: &[(u32, &str)]| {
            let holders: Vec<Holder> = holders
                .iter()
                .map(|&(pid, name)| Holder {
                    pid,
                    name: name.into(),
                })
                .collect();
            let attached = AttachedProgram {
                id: 42,
                name: Some("balancer".into()),
                at: AttachPoint::Native,
                link_ids: Vec::new(),
            };
            report("", &move |named| {
                named.programs = vec![(attached.clone(), holders.clone())];
            })
        };
        let foreign = program(&[(77, "katran")]);
        assert_eq!(foreign.state, State::Cannot);
        assert!(foreign.steps.is_empty());
        for word in ["balancer", "42", "katran (process 77)"] {
            assert!(foreign.found.contains(word), "{word}: {foreign:?}");
        }
        assert!(foreign.cure.contains("eth1"), "{foreign:?}");
        assert_eq!(program(&[]).state, State::Cannot);
        // An unprivileged user does not see which process holds the program of a running node.
        let inspected_while = |node_runs| {
            let facts = Facts {
                is_root: false,
                node_runs,
                ..samples::facts()
            };
            let attached = AttachedProgram {
                id: 42,
                name: None,
                at: AttachPoint::Native,
                link_ids: Vec::new(),
            };
            report_on(facts, "", &move |named| {
                named.programs = vec![(attached.clone(), Vec::new())];
            })
        };
        assert_eq!(inspected_while(true).state, State::AsWanted);
        assert_eq!(inspected_while(false).state, State::Cannot);
        let own = program(&[(78, DAEMON)]);
        assert_eq!(own.state, State::AsWanted);
        assert!(own.found.contains("the daemon's"), "{own:?}");
    }

    #[test]
    fn an_mtu_is_lowered_only_on_request() {
        let kept = report("", &mtu(9000));
        assert_eq!(kept.state, State::Cannot);
        assert!(kept.cure.contains("1770"), "{kept:?}");
        let lowered = report("[configure]\nmtu = \"auto\"\n", &mtu(9000));
        assert_eq!(lowered.steps[0].command(), "ip link set dev eth1 mtu 1770");
        assert_eq!(lowered.steps[0].undo(), "ip link set dev eth1 mtu 9000");
        let fine = report("[configure]\nmtu = \"auto\"\n", &mtu(1400));
        assert_eq!(fine.state, State::AsWanted, "none is raised");
        let exactly = report("[configure]\nmtu = 1600\n", &mtu(1500));
        assert_eq!(exactly.steps[0].wanted, "1600");
        let more = report("[configure]\nmtu = 9000\n", &mtu(1500));
        assert_eq!(more.state, State::Cannot);
        let igc = report("[configure]\nmtu = \"auto\"\n", &|named| {
            mtu(1600)(named);
            named.driver = "igc".into();
        });
        assert_eq!(igc.steps[0].wanted, "1500");
    }

    #[test]
    fn a_mode_that_the_driver_lacks_is_reported_before_the_daemon_starts() {
        let wants = |driver: &'static str, mode: XdpMode, copying: CopyMode| {
            report("", &move |named| {
                named.driver = driver.into();
                if let PortKind::AfXdp { xdp, copy, .. } = &mut named.port.kind {
                    (*xdp, *copy) = (mode, copying);
                }
            })
        };
        let veth = wants("veth", XdpMode::Auto, CopyMode::ZeroCopy);
        assert_eq!(veth.state, State::Cannot);
        assert!(
            veth.found.contains("no zero-copy") && veth.cure.contains("copy"),
            "{veth:?}"
        );
        let e1000e = wants("e1000e", XdpMode::Native, CopyMode::Auto);
        assert_eq!(e1000e.state, State::Cannot);
        assert!(e1000e.found.contains("no native hook"), "{e1000e:?}");
        for known in ["ice", "covalent_none"] {
            let outcome = wants(known, XdpMode::Native, CopyMode::ZeroCopy);
            assert_eq!(outcome.state, State::AsWanted, "{outcome:?}");
        }
    }

    #[test]
    fn too_many_queues_are_a_matter_of_another_stage() {
        let halved = |named: &mut Named| {
            named.driver = "ena".into();
            named.nic.channels = Some(covalent_api::control::Channels {
                combined: 8,
                combined_max: 8,
                ..Default::default()
            });
        };
        let outcome = report("", &halved);
        assert_eq!(outcome.state, State::NotAsWanted);
        assert!(
            outcome.found.contains("`channels`") && outcome.steps.is_empty(),
            "{outcome:?}"
        );
        let kept = report("[configure]\nchannels = \"keep\"\n", &halved);
        assert_eq!(kept.state, State::Cannot);
    }
}
