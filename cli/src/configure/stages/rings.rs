//! Descriptors in the rings of a NIC.

use covalent_config::{Amount, Config};

use super::{
    super::{
        facts::{Facts, Named},
        plan::Report,
        setting::Setting,
        stage::Stage,
    },
    one_step,
};
use crate::{netlink::Interface, nic::Rings};

const STAGE: Stage = Stage::Rings;

/// Whether the rings are as large as they are to be.
pub fn inspect(config: &Config, _: &Facts, named: &Named, found: &Interface) -> Report {
    let amount = config.configure.ring_slots;
    if amount == Amount::Keep {
        return Report::kept(STAGE, &named.name, "configure.ring_slots");
    }
    let rings = named.nic.rings.filter(|rings| rings.rx_max > 0);
    let Some(rings) = rings else {
        let why = format!("not offered by driver {}", named.driver_name());
        return Report::not_applicable(STAGE, &named.name, why);
    };
    let slots = named.ring_slots();
    let (wanted, why) = match amount {
        Amount::Exactly(slots) => (
            Rings {
                rx: slots.min(rings.rx_max),
                tx: slots.min(rings.tx_max),
                ..rings
            },
            format!(
                "configured: `configure.ring_slots = {slots}`; the device goes up to {}",
                words(&rings.most())
            ),
        ),
        // Larger rings stay.
        Amount::Auto | Amount::Keep => (
            Rings {
                rx: rings.rx.max(slots.min(rings.rx_max)),
                tx: rings.tx.max(slots.min(rings.tx_max)),
                ..rings
            },
            format!(
                "port {} has `ring_slots = {slots}`; the device goes up to {}",
                named.port.name,
                words(&rings.most())
            ),
        ),
    };
    if wanted == rings {
        return Report::as_wanted(STAGE, &named.name, format!("{}: {why}", words(&rings)));
    }
    let setting = Setting::Rings {
        interface: named.name.clone(),
        index: found.index,
    };
    one_step(STAGE, named, setting, words(&rings), words(&wanted), why)
}

impl Rings {
    /// The largest that the device has.
    const fn most(self) -> Self {
        Self {
            rx: self.rx_max,
            tx: self.tx_max,
            ..self
        }
    }
}

/// Returns the arguments of `ethtool -G` that set the current ring sizes.
pub fn words(rings: &Rings) -> String {
    match rings.tx_max {
        0 => format!("rx {}", rings.rx),
        _ => format!("rx {} tx {}", rings.rx, rings.tx),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::plan::State, samples},
        *,
    };

    fn report(more: &str, rings: Option<Rings>) -> Report {
        let mut facts = samples::facts();
        facts.interfaces[0].nic.rings = rings;
        let named = &facts.interfaces[0];
        let found = named.found.as_ref().expect("the sample is there");
        inspect(&samples::config(more), &facts, named, found)
    }

    const SMALL: Rings = Rings {
        rx: 512,
        tx: 4096,
        rx_max: 8192,
        tx_max: 8192,
    };

    #[test]
    fn small_rings_grow_to_those_of_the_port_and_large_ones_are_kept() {
        let grown = report("", Some(SMALL));
        assert_eq!(grown.steps[0].command(), "ethtool -G eth1 rx 2048 tx 4096");
        assert_eq!(grown.steps[0].undo(), "ethtool -G eth1 rx 512 tx 4096");
        let bounded = Rings {
            rx_max: 1024,
            ..SMALL
        };
        assert_eq!(report("", Some(bounded)).steps[0].wanted, "rx 1024 tx 4096");
        let large = Rings { rx: 4096, ..SMALL };
        assert_eq!(report("", Some(large)).state, State::AsWanted);
    }

    #[test]
    fn a_configured_ring_size_is_used_within_the_devices_maximum() {
        let report = |slots: u32| {
            let more = format!("[configure]\nring_slots = {slots}\n");
            self::report(&more, Some(SMALL))
        };
        assert_eq!(report(256).steps[0].wanted, "rx 256 tx 256");
        assert_eq!(report(1 << 20).steps[0].wanted, "rx 8192 tx 8192");
    }

    #[test]
    fn a_device_without_rings_is_reported() {
        for none in [None, Some(Rings::default())] {
            let outcome = report("", none);
            assert_eq!(outcome.state, State::NotApplicable);
            assert!(
                outcome.found.contains("not offered by driver ice"),
                "{outcome:?}"
            );
        }
        let kept = report("[configure]\nring_slots = \"keep\"\n", Some(SMALL));
        assert_eq!(kept.state, State::NotApplicable);
    }
}
