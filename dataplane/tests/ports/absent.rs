//! The placeholder port in the place of a device that is gone.

use std::path::Path;

use covalent_api::rule::{Action, Match};
use covalent_config::{Config, FaultRates};
use covalent_dataplane::port::{
    self, LaneMemory, Port, PortError, SteerChange, absent::AbsentPort,
};

use crate::{pair::collect, suite};

/// A sound port `p0` that is there.
fn open(directory: &Path) -> Box<dyn Port> {
    let text = format!(
        "[node]\nname = \"a\"\n[[port]]\nname = \"p0\"\nkind = \"pcap\"\noutput = \"{}/out\"\n",
        directory.display()
    );
    let config = Config::parse(&text, "test").unwrap();
    let mut memory = LaneMemory::for_lane(&config.port, 0).unwrap();
    port::open(
        &config.port[0],
        &config.dataplane,
        &config.link,
        &mut memory,
    )
    .unwrap()
}

#[test]
fn an_absent_port_is_a_pulled_cable() {
    let directory = tempfile::tempdir().unwrap();
    let there = open(directory.path());
    assert_eq!(there.absent(), None);
    let error = PortError::Gone {
        port: "p0".into(),
        reason: "it was taken out".into(),
    };
    let mut port = AbsentPort::after(there.info().clone(), &error);
    assert_eq!(port.absent(), Some("it was taken out"));
    assert_eq!(port.info(), there.info());
    suite::refuses_while_down(&mut port);
    assert_eq!(collect(&mut port, 8, &mut Vec::new()), 0);
    assert!(port.flush().is_ok() && port.tx_idle());
    assert!(port.prepare_sleep() && port.wait_fds().is_empty());
    port.finish_sleep();
    port.set_carrier(true);
    assert!(
        !port.carrier(),
        "a carrier of the interface is not the port's"
    );
    let rule = SteerChange::Insert(Match::Any, Action::Dataplane);
    assert!(port.steer(&rule).is_ok());
    for result in [
        port.set_enabled(true),
        port.set_faults(FaultRates::default(), FaultRates::default()),
    ] {
        assert_eq!(result.unwrap_err().to_string(), error.to_string());
    }
}
