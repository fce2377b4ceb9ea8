//! Traffic of a running node: finds pipes whose application stalls, and frames without a receiver.

use std::time::Duration;

use covalent_api::{
    request::PipeKind,
    status::{PipeStatus, PortStatus},
};

use super::{
    facts::{Running, process::ProcessState, running::Application},
    finding::Finding,
};
use crate::output::counted;

/// Causes of drops at a port of frames without a receiver.
const UNCLAIMED_CAUSES: [&str; 2] = ["no_pipe", "steered_to_drop"];

/// Cause of drops at a pipe without space.
const FULL_CAUSE: &str = "full";

/// The same cause among the drops of a port.
const PIPE_FULL_CAUSE: &str = "pipe_full";

/// Causes of drops at a port that are reported on their own line, belong to a pipe, or are
/// intended.
const NO_LOSS: [&str; 6] = [
    "no_pipe",
    "steered_to_drop",
    "steered_to_kernel",
    PIPE_FULL_CAUSE,
    "port_disabled",
    "fault_injected",
];

/// The remedy for each cause of frames lost at a port.
const LOSS_CURES: [(&str, &str); 7] = [
    (
        "rx_ring_full",
        "bursts are larger than the port's rings; use a larger ring_slots, an application that \
         sends fewer frames ahead, or a dedicated core for the lane",
    ),
    (
        "link_rx_ring_full",
        "a neighbor sent more frames of the link than it may; report it",
    ),
    (
        "fill_ring_empty",
        "the lane returned no memory in time; use a larger ring_slots, or a dedicated core for the \
         lane",
    ),
    (
        "tx_dropped_by_device",
        "the interface or the other end failed while sending: check for a cut cable or a slow other \
         end (`covalent events`, `ip -s link`)",
    ),
    (
        "rx_no_buffer",
        "all buffers of the device are in use; use a larger ring_slots, or a dedicated core for \
         the lane",
    ),
    (
        "rx_device_error",
        "the device found frames damaged: check the cable and the optics",
    ),
    (
        "rx_bad_checksum",
        "rx_checksum = \"drop\" dropped damaged frames: check their sender",
    ),
];

/// The remedy for any other cause.
const UNKNOWN_LOSS_CURE: &str =
    "a fault; report it with `covalent status --format json` and `covalent events`";

/// Returns the findings for pipes. All healthy pipes share one line.
pub fn pipes(running: &Running) -> Vec<Finding> {
    let findings: Vec<Finding> = running
        .after
        .pipes
        .iter()
        .filter_map(|after| {
            let before = running
                .before
                .pipes
                .iter()
                .find(|before| (before.session, before.pipe) == (after.session, after.pipe))?;
            let application = running.applications.get(&after.session);
            let moved = Moved::of(before, after);
            match after.kind {
                PipeKind::RxTx => both(running, after, &moved, application),
                _ => consumer(after, &moved, application)
                    .or_else(|| producer(after, &moved, application)),
            }
        })
        .collect();
    if findings.is_empty() {
        let count = running.after.pipes.len();
        return vec![Finding::fine(
            "pipes",
            match resting(running) {
                None => format!("{count}, none of which stands still"),
                Some(pipe) => format!(
                    "{count}, none of which is full; nothing moves in pipe {} of session {}, {} % \
                     full: its application keeps the frames, or its lane does not send them",
                    pipe.pipe,
                    pipe.session,
                    percent(pipe),
                ),
            },
        )];
    }
    findings
}

/// Returns an RX/TX pipe with frames in which nothing moves. The status does not show whether the
/// application or the lane has them.
fn resting(running: &Running) -> Option<&PipeStatus> {
    running.after.pipes.iter().find(|after| {
        let mut earlier = running.before.pipes.iter();
        let before = earlier.find(|it| (it.session, it.pipe) == (after.session, after.pipe));
        after.kind == PipeKind::RxTx
            && after.used_bytes > 0
            && before.is_some_and(|before| Moved::of(before, after).is_nothing())
    })
}

const fn percent(pipe: &PipeStatus) -> u64 {
    pipe.used_bytes.saturating_mul(100)
        / if pipe.capacity_bytes == 0 {
            1
        } else {
            pipe.capacity_bytes
        }
}

/// The changes of a pipe between the two queries.
struct Moved {
    /// Whether the application took something.
    taken: bool,
    /// Whether the lane took something.
    sent: bool,
    /// Frames for which there was no space.
    lost: u64,
}

impl Moved {
    fn of(before: &PipeStatus, after: &PipeStatus) -> Self {
        let lost = |pipe: &PipeStatus| pipe.drops.get(FULL_CAUSE).copied().unwrap_or(0);
        Self {
            taken: after.head_updates != before.head_updates
                || after.used_bytes < before.used_bytes,
            sent: after.tx_packets != before.tx_packets || after.used_bytes < before.used_bytes,
            lost: lost(after).saturating_sub(lost(before)),
        }
    }

    const fn is_nothing(&self) -> bool {
        !self.taken && !self.sent
    }
}

/// Returns whether so little of a ring is free that it loses frames, or soon does.
const fn is_full(pipe: &PipeStatus, moved: &Moved) -> bool {
    moved.lost > 0 || pipe.used_bytes.saturating_mul(4) >= pipe.capacity_bytes.saturating_mul(3)
}

/// Returns the ports on which a pipe may send: all of them if it names none.
fn ports_of<'a>(
    running: &'a Running,
    pipe: &'a PipeStatus,
) -> impl Iterator<Item = &'a PortStatus> {
    let ports = running.after.ports.iter();
    ports.filter(|port| pipe.port.as_ref().is_none_or(|name| *name == port.name))
}

/// Returns the remedy for a port without a carrier.
fn carrier_cure(port: &PortStatus) -> String {
    match &port.interface {
        Some(interface) => format!(
            "check the cable and the other end of {interface} (`ip link show {interface}`), or: \
             ip link set {interface} up"
        ),
        None => format!("start the other end of port {}", port.name),
    }
}

/// Returns a finding if nothing moves in an RX/TX pipe. Its used bytes include the frames that the
/// application returned, so the port is judged before the application.
fn both(
    running: &Running,
    pipe: &PipeStatus,
    moved: &Moved,
    application: Option<&Application>,
) -> Option<Finding> {
    if pipe.used_bytes == 0 || !moved.is_nothing() {
        return None;
    }
    let check = format!("pipe {} of session {}", pipe.pipe, pipe.session);
    let stopped = application.filter(|it| it.state == ProcessState::Stopped);
    let owner = owner(pipe, application);
    if let Some(port) = ports_of(running, pipe).find(|port| !port.carrier) {
        let found = format!(
            "{} % full, and nothing moves: port {} has no carrier, so the lane cannot send what \
             the application returned ({owner}); {} frames found no room meanwhile",
            percent(pipe),
            port.name,
            moved.lost,
        );
        let mut cure = carrier_cure(port);
        if let Some(it) = stopped {
            cure = format!("{cure}; and continue the process: kill -CONT {}", it.pid);
        }
        return Some(match moved.lost {
            0 => Finding::warning(check, found, cure),
            _ => Finding::failed(check, found, cure),
        });
    }
    if stopped.is_some() {
        return consumer(pipe, moved, application);
    }
    if !is_full(pipe, moved) {
        return None;
    }
    let room: Vec<String> = ports_of(running, pipe)
        .map(|port| {
            format!(
                "port {} has room for {}",
                port.name,
                counted(port.tx_room_frames, "frame")
            )
        })
        .collect();
    let waits = application.map_or_else(
        || "`covalent events` shows its process".to_owned(),
        |it| {
            format!(
                "check what process {0} waits for (`cat /proc/{0}/stack`, `gdb -p {0}`)",
                it.pid
            )
        },
    );
    Some(Finding::failed(
        check,
        format!(
            "{} % full, and nothing moves: the lane does not send what the application returned, \
             or the application returns nothing ({owner}); {}; {} frames found no room meanwhile",
            percent(pipe),
            room.join(", "),
            moved.lost,
        ),
        format!(
            "first its port: `covalent status` shows its carrier and tx room, and without room the \
             other end is slow; then a rate limit of the pipe; then {waits}"
        ),
    ))
}

/// Describes the owner of a pipe.
fn owner(pipe: &PipeStatus, application: Option<&Application>) -> String {
    let session = pipe.session;
    match application {
        Some(Application {
            pid,
            program,
            state,
        }) => format!("session {session}, {program}, process {pid}, which {state}"),
        None => format!("session {session}"),
    }
}

/// Returns a finding if an application does not consume its frames.
fn consumer(
    pipe: &PipeStatus,
    moved: &Moved,
    application: Option<&Application>,
) -> Option<Finding> {
    let is_full = is_full(pipe, moved);
    let stopped = application.filter(|it| it.state == ProcessState::Stopped);
    if pipe.kind == PipeKind::Tx
        || pipe.used_bytes == 0
        || moved.taken
        || !(is_full || stopped.is_some())
    {
        return None;
    }
    let check = format!("pipe {} of session {}", pipe.pipe, pipe.session);
    let found = format!(
        "{} % full, and its application takes nothing ({}); {} frames found no room meanwhile",
        percent(pipe),
        owner(pipe, application),
        moved.lost,
    );
    let cure = match (stopped, application) {
        (Some(it), _) => format!("kill -CONT {}", it.pid),
        (None, Some(it)) => format!(
            "check what process {} waits for (`cat /proc/{}/stack`, `gdb -p {}`), or stop it: kill \
             {}",
            it.pid, it.pid, it.pid, it.pid
        ),
        (None, None) => {
            "`covalent events` shows its process; if that exits, the pipe is reclaimed".to_owned()
        }
    };
    // Until its pipe is full nothing is lost.
    Some(if is_full {
        Finding::failed(check, found, cure)
    } else {
        Finding::warning(check, found, cure)
    })
}

/// Returns a finding if a lane does not consume the frames of an application.
fn producer(
    pipe: &PipeStatus,
    moved: &Moved,
    application: Option<&Application>,
) -> Option<Finding> {
    if pipe.kind != PipeKind::Tx || pipe.used_bytes == 0 || moved.sent {
        return None;
    }
    Some(Finding::warning(
        format!("pipe {} of session {}", pipe.pipe, pipe.session),
        format!(
            "{} bytes wait to be sent, and none was taken ({})",
            pipe.used_bytes,
            owner(pipe, application)
        ),
        "its port has no carrier, or no room: `covalent status` shows which (carrier, tx room), \
         `ip link` the interface",
    ))
}

/// Returns the drops of frames without a receiver.
pub fn misses(running: &Running) -> Vec<Finding> {
    running
        .after
        .ports
        .iter()
        .filter_map(|after| {
            let before = running
                .before
                .ports
                .iter()
                .find(|it| it.name == after.name)?;
            Some(misses_of(before, after, running.between))
        })
        .collect()
}

/// Returns the losses at a port itself: on receive before the pipe was known, or on transmit.
pub fn losses(running: &Running) -> Vec<Finding> {
    let ports = running.after.ports.iter();
    ports
        .filter_map(|after| {
            let mut ports = running.before.ports.iter();
            let before = ports.find(|it| it.name == after.name)?;
            let lost = losses_of(before, after, running.between);
            let overflows = overflows_of(running, before, after);
            Some([Some(lost), overflows].into_iter().flatten())
        })
        .flatten()
        .collect()
}

/// Returns the frames of a port that did not fit into a pipe.
fn overflows_of(running: &Running, before: &PortStatus, after: &PortStatus) -> Option<Finding> {
    let count = |port: &PortStatus| port.drops.get(PIPE_FULL_CAUSE).copied().unwrap_or(0);
    let so_far = count(after);
    if so_far == 0 {
        return None;
    }
    let mut pipes = running.after.pipes.iter();
    let sends_back = pipes.any(|pipe| {
        pipe.kind == PipeKind::RxTx
            && pipe.drops.get(FULL_CAUSE).is_some_and(|&count| count > 0)
            && pipe.port.as_ref().is_none_or(|name| *name == after.name)
    });
    let cure = match (sends_back, after.carrier) {
        (false, _) => {
            "the application reads too slowly: give it a larger pipe, or find it with `covalent \
             pipes`"
                .to_owned()
        }
        (true, false) => format!(
            "the port has no carrier, so an RX/TX pipe keeps what its application returned: {}",
            carrier_cure(after)
        ),
        (true, true) => "the lane sends too slowly what an RX/TX pipe's application returned \
             (`covalent status`: tx room; a rate limit of the pipe), or the application reads too \
             slowly: give it a larger pipe, or find it with `covalent pipes`"
            .to_owned(),
    };
    Some(Finding::warning(
        format!("port {}: full pipes", after.name),
        format!(
            "{} dropped so far because a pipe was full, {} of them within {} ms",
            counted(so_far, "frame"),
            so_far.saturating_sub(count(before)),
            running.between.as_millis()
        ),
        cure,
    ))
}

/// Returns the remedy of each cause, in order. Causes with the same remedy share it.
fn cures_of(causes: &[(String, u64)]) -> String {
    let mut cures: Vec<(Vec<&str>, &str)> = Vec::new();
    for (cause, _) in causes {
        let known = LOSS_CURES.iter().find(|(known, _)| known == cause);
        let cure = known.map_or(UNKNOWN_LOSS_CURE, |(_, cure)| cure);
        match cures.iter_mut().find(|(_, it)| *it == cure) {
            Some((names, _)) => names.push(cause),
            None => cures.push((vec![cause], cure)),
        }
    }
    let lines = cures.iter();
    let lines: Vec<_> = lines
        .map(|(names, cure)| format!("{}: {cure}", names.join(", ")))
        .collect();
    lines.join("; ")
}

fn losses_of(before: &PortStatus, after: &PortStatus, between: Duration) -> Finding {
    let check = format!("port {}: frames lost", after.name);
    let lost = |port: &PortStatus| -> Vec<(String, u64)> {
        let causes = port.drops.iter();
        causes
            .filter(|(cause, count)| **count > 0 && !NO_LOSS.contains(&cause.as_str()))
            .map(|(cause, &count)| (cause.clone(), count))
            .collect()
    };
    let total = |of: &[(String, u64)]| of.iter().map(|(_, count)| count).sum::<u64>();
    let causes = lost(after);
    if causes.is_empty() {
        return Finding::fine(check, "lost before any pipe: none so far");
    }
    let meanwhile = total(&causes).saturating_sub(total(&lost(before)));
    let named: Vec<String> = causes
        .iter()
        .map(|(cause, count)| format!("{count} as {cause}"))
        .collect();
    Finding::warning(
        check,
        format!(
            "{} so far, {meanwhile} of them within {} ms; no pipe has counted them as its own",
            named.join(", "),
            between.as_millis()
        ),
        cures_of(&causes),
    )
}

fn misses_of(before: &PortStatus, after: &PortStatus, between: Duration) -> Finding {
    let check = format!("port {}: misses", after.name);
    let count = |port: &PortStatus| -> u64 {
        let causes = UNCLAIMED_CAUSES.iter();
        causes.filter_map(|cause| port.drops.get(*cause)).sum()
    };
    let lost = count(after).saturating_sub(count(before));
    let so_far = format!(
        "{} dropped so far, {} passed to the kernel",
        count(after),
        after.passed_to_kernel_packets
    );
    if lost == 0 {
        return Finding::fine(check, so_far);
    }
    Finding::warning(
        check,
        format!(
            "{lost} dropped within {} ms ({so_far}): no pipe is bound to them, and a rule or \
             dataplane.miss gives them to the dataplane",
            between.as_millis()
        ),
        "covalent steer list shows the rules; dataplane.miss = \"kernel\" or a [[steer]] with \
         action = \"kernel\" gives them to the kernel, then: covalent reload",
    )
}

#[cfg(test)]
mod tests {
    use covalent_api::status::Causes;

    use super::{
        super::{finding::Level, samples},
        *,
    };

    /// A node with a pipe of 1000 bytes in session 3 of process 77, changed between the looks.
    fn running(
        kind: PipeKind,
        state: ProcessState,
        change: impl FnOnce(&mut PipeStatus, &mut PipeStatus),
    ) -> Running {
        let mut running = samples::running();
        let pipe = PipeStatus {
            session: 3,
            pipe: 1,
            program: Some("slow".into()),
            port: None,
            kind,
            capacity_bytes: 1000,
            page_bytes: 4096,
            rx_packets: 0,
            rx_bytes: 0,
            tx_packets: 0,
            tx_bytes: 0,
            notifications_sent: 0,
            notifications_suppressed: 0,
            head_updates: 0,
            tx_discarded_packets: 0,
            unstamped_packets: 0,
            tx_full_packets: 0,
            used_bytes: 900,
            drops: Causes::new(),
            port_lost_packets: 0,
        };
        let (mut before, mut after) = (pipe.clone(), pipe);
        change(&mut before, &mut after);
        (running.before.pipes, running.after.pipes) = (vec![before], vec![after]);
        let application = Application {
            pid: 77,
            program: "slow".into(),
            state,
        };
        running.applications = [(3, application)].into();
        running
    }

    #[test]
    fn an_application_that_receives_nothing_is_named_with_its_state() {
        let stuck = |kind, state| pipes(&running(kind, state, |_, _| {})).remove(0);
        let stopped = stuck(PipeKind::Rx, ProcessState::Stopped);
        assert_eq!(stopped.level, Level::Failed);
        assert_eq!(stopped.cure, "kill -CONT 77");
        assert_eq!(stopped.check, "pipe 1 of session 3");
        assert!(
            stopped.found.contains("90 % full")
                && stopped.found.contains("slow, process 77, which is stopped"),
            "{stopped:?}"
        );
        let waits = stuck(PipeKind::Rx, ProcessState::Alive);
        assert!(waits.level == Level::Failed && waits.cure.ends_with("kill 77"));
    }

    #[test]
    fn an_application_that_receives_a_little_or_has_space_is_fine() {
        let level = |state, change: fn(&mut PipeStatus, &mut PipeStatus)| {
            pipes(&running(PipeKind::Rx, state, change)).remove(0).level
        };
        let alive = ProcessState::Alive;
        assert_eq!(
            level(alive, |_, after| after.head_updates += 1),
            Level::Fine
        );
        assert_eq!(level(alive, |_, after| after.used_bytes -= 64), Level::Fine);
        let room = |before: &mut PipeStatus, after: &mut PipeStatus| {
            (before.used_bytes, after.used_bytes) = (100, 200);
        };
        assert_eq!(level(alive, room), Level::Fine, "it may gather");
        assert_eq!(
            level(ProcessState::Stopped, room),
            Level::Warning,
            "it will fill"
        );
        let loses = |before: &mut PipeStatus, after: &mut PipeStatus| {
            (before.used_bytes, after.used_bytes) = (100, 100);
            after.drops.insert(FULL_CAUSE.into(), 5);
        };
        assert_eq!(level(alive, loses), Level::Failed);
    }

    /// An RX/TX pipe on the port of the sample, which has no carrier or a carrier.
    fn rx_tx(carrier: bool, used_bytes: u64, state: ProcessState) -> Running {
        let mut running = running(PipeKind::RxTx, state, |before, after| {
            for pipe in [before, after] {
                pipe.port = Some("p0".into());
                pipe.used_bytes = used_bytes;
            }
        });
        running.before.ports[0].carrier = carrier;
        running.after.ports[0].carrier = carrier;
        running
    }

    #[test]
    fn a_port_without_a_carrier_is_blamed_instead_of_the_application_that_returned_its_frames() {
        for used_bytes in [100, 900] {
            let cut = pipes(&rx_tx(false, used_bytes, ProcessState::Alive)).remove(0);
            assert_eq!(cut.level, Level::Warning, "{cut:?}");
            assert!(cut.found.contains("port p0 has no carrier"), "{cut:?}");
            assert!(cut.cure.contains("ip link set eth1 up"), "{cut:?}");
            assert!(!cut.cure.contains("kill"), "{cut:?}");
        }
        let both = pipes(&rx_tx(false, 900, ProcessState::Stopped)).remove(0);
        assert!(both.cure.starts_with("check the cable"), "{both:?}");
        assert!(both.cure.ends_with("kill -CONT 77"), "{both:?}");
        let stopped = pipes(&rx_tx(true, 900, ProcessState::Stopped)).remove(0);
        assert_eq!(stopped.cure, "kill -CONT 77");
    }

    #[test]
    fn a_full_rx_tx_pipe_with_a_carrier_names_both_causes_and_never_recommends_to_kill() {
        let full = pipes(&rx_tx(true, 900, ProcessState::Alive)).remove(0);
        assert_eq!(full.level, Level::Failed);
        assert!(
            full.found.contains("the lane does not send")
                && full.found.contains("or the application returns nothing")
                && full.found.contains("port p0 has room for 4 frames"),
            "{full:?}"
        );
        assert!(
            full.cure.starts_with("first its port") && full.cure.contains("rate limit"),
            "{full:?}"
        );
        assert!(!full.cure.contains("kill"), "{full:?}");
        let room = pipes(&rx_tx(true, 100, ProcessState::Alive)).remove(0);
        assert_eq!(room.level, Level::Fine, "the application may keep them");
        assert!(room.found.contains("nothing moves in pipe 1"), "{room:?}");
        let mut sends = rx_tx(true, 900, ProcessState::Alive);
        sends.after.pipes[0].tx_packets += 1;
        let sends = pipes(&sends).remove(0);
        assert_eq!(sends.found, "1, none of which stands still");
    }

    #[test]
    fn frames_for_a_full_rx_tx_pipe_are_no_proof_of_a_slow_application() {
        for (carrier, words) in [
            (false, "has no carrier"),
            (true, "the lane sends too slowly"),
        ] {
            let mut running = rx_tx(carrier, 900, ProcessState::Alive);
            running.after.ports[0].drops = [(PIPE_FULL_CAUSE.to_owned(), 7)].into();
            running.after.pipes[0].drops.insert(FULL_CAUSE.into(), 7);
            let judged = losses(&running).remove(1);
            assert!(judged.cure.contains(words), "{judged:?}");
            assert_eq!(
                judged.cure.contains("reads too slowly"),
                carrier,
                "{judged:?}"
            );
        }
    }

    #[test]
    fn each_cause_of_lost_frames_has_its_own_cure() {
        let mut running = samples::running();
        let drops = &mut running.after.ports[0].drops;
        drops.insert("tx_dropped_by_device".into(), 3);
        let cure = |running: &Running| losses(running).remove(0).cure;
        let cut = cure(&running);
        assert!(cut.contains("cut cable") && !cut.contains("ring"), "{cut}");
        let drops = &mut running.after.ports[0].drops;
        drops.insert("rx_ring_full".into(), 3);
        drops.insert("bad_tag".into(), 3);
        drops.insert("worse_tag".into(), 3);
        let all = cure(&running);
        for words in [
            "bad_tag, worse_tag: a fault",
            "; rx_ring_full: bursts",
            "; tx_dropped_by_device: the interface",
        ] {
            assert!(all.contains(words), "{all}");
        }
    }

    #[test]
    fn packets_that_wait_to_be_sent_are_reported() {
        let finding = |change: fn(&mut PipeStatus, &mut PipeStatus)| {
            pipes(&running(PipeKind::Tx, ProcessState::Alive, change)).remove(0)
        };
        let stands = finding(|_, _| {});
        assert!(stands.level == Level::Warning && stands.found.contains("900 bytes wait"));
        assert_eq!(finding(|_, after| after.tx_packets += 1).level, Level::Fine);
    }

    #[test]
    fn losses_of_a_port_before_any_pipe_are_reported_with_their_cause() {
        let mut running = samples::running();
        assert_eq!(losses(&running)[0].level, Level::Fine);
        for (status, count) in [(&mut running.before, 5), (&mut running.after, 7)] {
            let drops = &mut status.ports[0].drops;
            drops.insert("rx_ring_full".into(), count);
            drops.insert("no_pipe".into(), 99);
        }
        let judged = &losses(&running)[0];
        assert!(
            judged.level == Level::Warning
                && judged
                    .found
                    .starts_with("7 as rx_ring_full so far, 2 of them within"),
            "{judged:?}"
        );
    }

    #[test]
    fn frames_that_found_a_pipe_full_are_counted_apart_from_those_lost_before() {
        let mut running = samples::running();
        for (status, count) in [(&mut running.before, 5), (&mut running.after, 7)] {
            status.ports[0].drops = [(PIPE_FULL_CAUSE.to_owned(), count)].into();
        }
        let judged = losses(&running);
        let levels = judged.iter().map(|it| it.level).collect::<Vec<_>>();
        assert_eq!(levels, [Level::Fine, Level::Warning], "{judged:?}");
        assert_eq!(judged[0].found, "lost before any pipe: none so far");
        let wanted = "7 frames dropped so far because a pipe was full, 2 of them within 250 ms";
        assert_eq!(judged[1].found, wanted);
    }

    #[test]
    fn unclaimed_frames_are_reported_while_they_arrive() {
        let mut running = samples::running();
        assert_eq!(misses(&running)[0].level, Level::Fine);
        *running.after.ports[0]
            .drops
            .entry("no_pipe".into())
            .or_default() += 9;
        let judged = &misses(&running)[0];
        assert!(
            judged.level == Level::Warning && judged.found.starts_with("9 dropped within"),
            "{judged:?}"
        );
    }
}
