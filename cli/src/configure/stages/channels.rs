//! Queues of an interface.

use covalent_api::control::Channels;
use covalent_config::{Amount, Config};

use super::{
    super::{
        facts::{Facts, Named, wishes},
        plan::Report,
        setting::Setting,
        stage::Stage,
    },
    one_step,
};
use crate::netlink::Interface;

const STAGE: Stage = Stage::Channels;

/// Whether the interface has as many queues as it is to have.
pub fn inspect(config: &Config, facts: &Facts, named: &Named, found: &Interface) -> Report {
    let amount = config.configure.channels;
    if amount == Amount::Keep {
        return Report::kept(STAGE, &named.name, "configure.channels");
    }
    let Some(channels) = named.nic.channels else {
        let why = format!("not offered by driver {}", named.driver_name());
        return Report::not_applicable(STAGE, &named.name, why);
    };
    let now = channels.receiving();
    let most = channels.rx_max.max(channels.combined_max);
    let (wanted, why) = wanted(amount, facts, named, now);
    if wanted == now {
        return Report::as_wanted(STAGE, &named.name, format!("{now} of {most}: {why}"));
    }
    if wanted > most {
        return Report::cannot(
            STAGE,
            &named.name,
            format!("{now} queues, wanted {wanted}, but it supports {most} at most: {why}"),
            format!("a port with `queues = {most}`, or 0 for all"),
        );
    }
    let setting = Setting::Channels {
        interface: named.name.clone(),
        index: found.index,
    };
    one_step(
        STAGE,
        named,
        setting,
        words(&channels),
        words_of(&channels, wanted),
        why,
    )
}

/// Returns the wanted number of queues, and why.
fn wanted(amount: Amount, facts: &Facts, named: &Named, now: u32) -> (u32, String) {
    let choices = named.choices(facts.linux);
    match (amount, wishes(&named.port).queues) {
        (Amount::Exactly(queues), _) => (
            queues,
            format!("configured: `configure.channels = {queues}`"),
        ),
        (_, 0) if now > choices.queues_most.value => {
            (choices.queues_most.value, choices.queues_most.why)
        }
        (_, 0) => (now, "the port takes all".to_owned()),
        (_, queues) => (
            queues,
            format!(
                "port {} has `queues = {queues}`, and frames on other queues go to the kernel",
                named.port.name
            ),
        ),
    }
}

/// How many queues the port will use once the stage is done.
pub fn queues_used(config: &Config, facts: &Facts, named: &Named) -> u32 {
    match (wishes(&named.port).queues, config.configure.channels) {
        (0, Amount::Keep) => named.queues(),
        (0, amount) => wanted(amount, facts, named, named.queues()).0,
        (queues, _) => queues,
    }
}

/// Whether the device has queues that do both now, and not some for each direction.
const fn is_combined(channels: &Channels) -> bool {
    channels.combined_max > 0 && (channels.combined > 0 || channels.rx == 0)
}

/// Returns the arguments of `ethtool -L` that set the current queue counts.
pub fn words(channels: &Channels) -> String {
    let Channels {
        rx, tx, combined, ..
    } = channels;
    match channels {
        channels if is_combined(channels) => format!("combined {combined}"),
        channels if channels.tx_max == 0 => format!("rx {rx}"),
        _ => format!("rx {rx} tx {tx}"),
    }
}

/// Returns the arguments for `queues` queues of the same kind. Both directions get the same number:
/// some drivers require that with XDP.
fn words_of(channels: &Channels, queues: u32) -> String {
    match channels {
        channels if is_combined(channels) => format!("combined {queues}"),
        channels if channels.tx_max == 0 => format!("rx {queues}"),
        channels if queues > channels.tx_max => format!("rx {queues} tx {}", channels.tx),
        _ => format!("rx {queues} tx {queues}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::plan::State, samples},
        *,
    };

    fn with(driver: &str, channels: Channels) -> Facts {
        let mut facts = samples::facts();
        facts.interfaces[0].driver = driver.into();
        facts.interfaces[0].nic.channels = Some(channels);
        facts
    }

    fn combined(now: u32, most: u32) -> Channels {
        Channels {
            combined: now,
            combined_max: most,
            ..Channels::default()
        }
    }

    fn report(more: &str, facts: &Facts) -> Report {
        let named = &facts.interfaces[0];
        let found = named.found.as_ref().expect("the sample is there");
        inspect(&samples::config(more), facts, named, found)
    }

    #[test]
    fn a_port_that_names_its_queues_gets_as_many() {
        let mut facts = with("ice", combined(8, 16));
        samples::set_queues(&mut facts, 2);
        let report = report("", &facts);
        assert_eq!(report.state, State::NotAsWanted);
        assert_eq!(report.steps[0].command(), "ethtool -L eth1 combined 2");
        assert_eq!(report.steps[0].undo(), "ethtool -L eth1 combined 8");
        assert!(report.found.contains("queues = 2"), "{report:?}");
    }

    #[test]
    fn a_driver_that_halves_gets_half() {
        let ena = report("", &with("ena", combined(8, 8)));
        assert_eq!(ena.steps[0].command(), "ethtool -L eth1 combined 4");
        assert_eq!(
            report("", &with("ena", combined(4, 8))).state,
            State::AsWanted
        );
        let ice = report("", &with("ice", combined(8, 8)));
        assert_eq!(ice.state, State::AsWanted, "the port takes all");
        // More than can be steered.
        let wide = report("", &with("ice", combined(128, 128)));
        assert_eq!(wide.steps[0].wanted, "combined 64");
    }

    #[test]
    fn queues_of_both_directions_are_set_to_the_same_number() {
        let separate = Channels {
            rx: 4,
            tx: 3,
            rx_max: 8,
            tx_max: 8,
            ..Channels::default()
        };
        let mut facts = with("veth", separate);
        samples::set_queues(&mut facts, 2);
        let two = report("", &facts);
        assert_eq!(two.steps[0].command(), "ethtool -L eth1 rx 2 tx 2");
        assert_eq!(two.steps[0].undo(), "ethtool -L eth1 rx 4 tx 3");
        let few = Channels {
            tx: 1,
            tx_max: 1,
            ..separate
        };
        assert_eq!(words_of(&few, 2), "rx 2 tx 1");
        let receive_only = Channels {
            tx: 0,
            tx_max: 0,
            ..separate
        };
        assert_eq!(words_of(&receive_only, 2), "rx 2");
        assert_eq!(words(&receive_only), "rx 4");
    }

    #[test]
    fn an_impossible_channel_count_is_reported_with_the_possible_one() {
        let report = report("[configure]\nchannels = 9\n", &with("ice", combined(4, 8)));
        assert_eq!(report.state, State::Cannot);
        assert!(report.found.contains("8 at most") && report.steps.is_empty());
    }

    #[test]
    fn kept_or_missing_channels_are_left_alone() {
        let facts = with("ena", combined(8, 8));
        let kept = report("[configure]\nchannels = \"keep\"\n", &facts);
        assert_eq!(kept.state, State::NotApplicable);
        let mut silent = facts;
        silent.interfaces[0].nic.channels = None;
        let silent = report("", &silent);
        assert_eq!(silent.state, State::NotApplicable);
        assert!(silent.found.contains("driver ena"), "{silent:?}");
    }
}
