//! Memory that the daemon may lock.

use covalent_config::{Care, Config, packet_memory_bytes};

use super::{
    super::{
        facts::{Facts, Memlock, Named},
        plan::{Report, Step},
        setting::{ABSENT, Setting},
        stage::Stage,
    },
    channels,
};

const STAGE: Stage = Stage::Memlock;

/// The drop-in, which ends with the boot as the other settings do.
const DROP_IN: &str = "/run/systemd/system/covalentd.service.d/50-covalent-configure.conf";

/// The contents of the drop-in.
const NO_LIMIT: &str = "[Service]\nLimitMEMLOCK=infinity";

/// Whether the daemon may lock its packet memory.
pub fn inspect(config: &Config, facts: &Facts) -> Report {
    if config.configure.memlock == Care::Keep {
        return Report::kept(STAGE, "", "configure.memlock");
    }
    if facts.interfaces.is_empty() {
        return Report::not_applicable(STAGE, "", "no port of the kind \"af_xdp\" locks memory");
    }
    let needed_kib = needed_bytes(config, facts).div_ceil(1024);
    let enough = |limit: u64| limit / 1024 >= needed_kib;
    match facts.memlock {
        Memlock::Unit(None) => Report::as_wanted(STAGE, "", "no limit in covalentd's unit"),
        Memlock::Own(None) => Report::as_wanted(
            STAGE,
            "",
            "no limit for a daemon started from \
            here",
        ),
        Memlock::Unit(Some(limit)) | Memlock::Own(Some(limit)) if enough(limit) => {
            let outcome = format!("{} KiB allowed, {needed_kib} KiB needed", limit / 1024);
            Report::as_wanted(STAGE, "", outcome)
        }
        Memlock::Unit(Some(limit)) => {
            let why = format!(
                "covalentd's unit allows {} KiB, and packet memory takes {needed_kib} KiB",
                limit / 1024
            );
            let step = Step {
                setting: Setting::DropIn {
                    path: DROP_IN.into(),
                },
                before: ABSENT.to_owned(),
                wanted: NO_LIMIT.to_owned(),
                why: why.clone(),
            };
            Report::steps(STAGE, "", why, vec![step])
        }
        Memlock::Own(Some(limit)) => {
            let outcome = format!(
                "this user may lock {} KiB, and packet memory takes {needed_kib} KiB",
                limit / 1024
            );
            if facts.is_root {
                let cure = "`ulimit -l unlimited` in the shell that starts covalentd, or give it \
                    CAP_IPC_LOCK";
                return Report::cannot(STAGE, "", outcome, cure);
            }
            Report::not_applicable(
                STAGE,
                "",
                format!(
                    "the limit is that of the user who starts covalentd, and root has none; \
                     {outcome}"
                ),
            )
        }
    }
}

fn needed_bytes(config: &Config, facts: &Facts) -> u64 {
    let bytes = |named: &Named| {
        let chunk = named.choices(facts.linux).chunk_bytes.value;
        let queues = channels::queues_used(config, facts, named);
        packet_memory_bytes(queues, named.ring_slots())
            * u64::from(chunk / covalent_config::CHUNK_BYTES)
    };
    facts.interfaces.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::plan::State, samples},
        *,
    };

    fn report(more: &str, memlock: Memlock, is_root: bool) -> Report {
        let facts = Facts {
            memlock,
            is_root,
            ..samples::facts()
        };
        inspect(&samples::config(more), &facts)
    }

    #[test]
    fn a_unit_that_allows_too_little_gets_a_drop_in() {
        let outcome = report("", Memlock::Unit(Some(8 << 20)), true);
        assert_eq!(outcome.state, State::NotAsWanted);
        assert!(
            outcome.found.contains("8192 KiB") && outcome.found.contains("14336 KiB"),
            "{outcome:?}"
        );
        let command = outcome.steps[0].command();
        assert!(
            command.contains("LimitMEMLOCK=infinity") && command.contains("daemon-reload"),
            "{command}"
        );
        assert!(outcome.steps[0].undo().starts_with("rm -f /run/systemd/"));
        for enough in [Memlock::Unit(None), Memlock::Unit(Some(64 << 20))] {
            assert_eq!(report("", enough, true).state, State::AsWanted);
        }
    }

    #[test]
    fn the_limit_of_a_shell_is_reported_to_its_owner() {
        let root = report("", Memlock::Own(Some(8 << 20)), true);
        assert_eq!(root.state, State::Cannot);
        assert!(root.cure.contains("ulimit -l"), "{root:?}");
        // A user who only runs the check is not the one who starts the daemon.
        let user = report("", Memlock::Own(Some(8 << 20)), false);
        assert_eq!(user.state, State::NotApplicable);
        assert_eq!(report("", Memlock::Own(None), true).state, State::AsWanted);
        let kept = report(
            "[configure]\nmemlock = \"keep\"\n",
            Memlock::Unit(Some(0)),
            true,
        );
        assert_eq!(kept.state, State::NotApplicable);
    }
}
