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
            consumer(after, &moved, application).or_else(|| producer(after, &moved, application))
        })
        .collect();
    if findings.is_empty() {
        let count = running.after.pipes.len();
        return vec![Finding::fine(
            "pipes",
            format!("{count}, none of which stands still"),
        )];
    }
    findings
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
    let is_full = moved.lost > 0
        || pipe.used_bytes.saturating_mul(4) >= pipe.capacity_bytes.saturating_mul(3);
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
        pipe.used_bytes.saturating_mul(100) / pipe.capacity_bytes.max(1),
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
            let overflows = overflows_of(before, after, running.between);
            Some([Some(lost), overflows].into_iter().flatten())
        })
        .flatten()
        .collect()
}

/// Returns the frames of a port that did not fit into a pipe.
fn overflows_of(before: &PortStatus, after: &PortStatus, between: Duration) -> Option<Finding> {
    let count = |port: &PortStatus| port.drops.get(PIPE_FULL_CAUSE).copied().unwrap_or(0);
    let so_far = count(after);
    if so_far == 0 {
        return None;
    }
    Some(Finding::warning(
        format!("port {}: full pipes", after.name),
        format!(
            "{} dropped so far because a pipe was full, {} of them within {} ms",
            counted(so_far, "frame"),
            so_far.saturating_sub(count(before)),
            between.as_millis()
        ),
        "the application reads too slowly: give it a larger pipe, or find it with `covalent pipes`",
    ))
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
        "rx_ring_full: bursts are larger than the port's rings; use a larger ring_slots, an \
         application that sends fewer frames ahead, or a dedicated core for the lane; other \
         causes: docs/metrics.md, covalent_port_dropped_packets_total",
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
