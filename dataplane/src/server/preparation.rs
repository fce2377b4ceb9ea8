//! Prepares a draft without the lanes. It parses the draft, compares it with the configuration in
//! force, and opens the ports that can be open beside that.

use std::sync::Arc;

use covalent_api::agreement::Objection;
use covalent_config::{Config, Effect, PortKind, changes};
use covalent_protocol::agreement::digest;

use super::{
    opener::{Opened, open_all},
    port_plan::PortPlan,
    port_table::PortTable,
};
use crate::{
    cores,
    fault_injection::{FaultInjection, FaultsRefused},
    lane::policy::Policy,
    port,
};

/// A draft to look at.
#[derive(Debug)]
pub struct Draft {
    /// Its text.
    pub text: String,
    /// The digest that it was offered by.
    pub digest: u64,
    /// The epoch that it was offered for.
    pub epoch: u64,
    /// The configuration in force.
    pub now: Arc<Config>,
    /// The epoch in force.
    pub epoch_now: u64,
    /// The policy in force.
    pub policy: Arc<Policy>,
    /// The ports in force.
    pub ports: PortTable,
    /// Number of lanes.
    pub lanes: u32,
    /// Whether ports may damage their own frames.
    pub faults: FaultInjection,
    /// Names of ports that are closed and opened again.
    pub reopen: Vec<String>,
}

/// A configuration that is ready for the lanes.
#[derive(Debug)]
pub struct Prepared {
    /// The configuration.
    pub config: Config,
    /// Keys whose value changes.
    pub changed: Vec<String>,
    /// Which ports are opened, and when.
    pub plan: PortPlan,
    /// Those that are open already.
    pub opened: Vec<Opened>,
}

/// Checks a draft.
///
/// # Errors
/// All objections. Nothing is left open then.
pub(super) fn prepare(draft: &Draft) -> Result<Prepared, Vec<Objection>> {
    let whole = |message: String| {
        vec![Objection {
            key: String::new(),
            message,
        }]
    };
    if digest(draft.text.as_bytes()) != draft.digest {
        return Err(whole(
            "the draft is not the text that was offered: send it whole, and then the offer"
                .to_owned(),
        ));
    }
    let config = Config::parse(&draft.text, "draft").map_err(|error| {
        let problems = error.problems().iter();
        problems
            .map(|problem| Objection {
                key: problem.key.clone(),
                message: problem.message.clone(),
            })
            .collect::<Vec<_>>()
    })?;
    // A later reader of the configuration in force finds the text by its digest.
    if config.to_toml().ok().as_deref() != Some(draft.text.as_str()) {
        return Err(whole(
            "the draft is not in canonical form: offer the output of `Config::to_toml`".to_owned(),
        ));
    }
    let changes = changes(&draft.now, &config);
    let mut objections: Vec<Objection> = changes
        .iter()
        .filter(|change| change.effect == Effect::Restart)
        .map(|change| Objection {
            message: format!(
                "is read only when covalentd starts, and is {} in force: restore that in place of \
                 {}, or restart covalentd",
                change.from, change.to
            ),
            key: change.key.clone(),
        })
        .collect();
    if draft.faults == FaultInjection::Refused {
        let damaging = (0..)
            .zip(&config.port)
            .filter(|(_, port)| port.faults.is_some());
        objections.extend(damaging.map(|(at, port): (usize, _)| {
            let port = port.name.clone();
            Objection {
                key: format!("port[{at}].faults"),
                message: FaultsRefused { port }.to_string(),
            }
        }));
    }
    let reopened = draft.reopen.iter();
    objections.extend(reopened.filter_map(|name| no_reopening(name, &draft.now, &config)));
    if !objections.is_empty() {
        return Err(objections);
    }
    if let Err(error) = cores::check(&config) {
        let key = format!("lane[{}].core", error.lane);
        let message = error.to_string();
        return Err(vec![Objection { key, message }]);
    }
    // Last, for it changes something on the host.
    let plan = PortPlan::new(&draft.now.port, &config.port, &draft.reopen);
    check_all_openable(&config, &plan.after)?;
    let opened = open_all(&config, &plan.beside)?;
    Ok(Prepared {
        config,
        plan,
        opened,
        changed: changes.into_iter().map(|change| change.key).collect(),
    })
}

/// Returns the objection to opening the named port again, if there is one.
fn no_reopening(name: &str, now: &Config, wanted: &Config) -> Option<Objection> {
    let at = wanted.port.iter().position(|port| port.name == name);
    let is_in_force = now.port.iter().any(|port| port.name == name);
    let message = match at.map(|at| &wanted.port[at].kind) {
        Some(PortKind::AfXdp { .. } | PortKind::Cable { .. }) if is_in_force => return None,
        Some(PortKind::Dpdk { .. }) => {
            "is on DPDK, and DPDK devices are set up only when covalentd starts: restart covalentd"
                .to_owned()
        }
        Some(PortKind::Pcap { .. }) => {
            "is a capture, which has no device that may have changed".to_owned()
        }
        _ => format!("there is no port `{name}` to reopen"),
    };
    let key = at.map_or_else(String::new, |at| format!("port[{at}]"));
    Some(Objection { key, message })
}

/// Checks whether ports could be opened for which others are closed first: known problems are
/// reported before anything is closed.
fn check_all_openable(config: &Config, places: &[usize]) -> Result<(), Vec<Objection>> {
    let checked = places.iter().filter_map(|&at| {
        let error = port::check_openable(&config.port[at]).err()?;
        Some(Objection {
            key: format!("port[{at}]"),
            message: error.to_string(),
        })
    });
    let objections: Vec<_> = checked.collect();
    if objections.is_empty() {
        Ok(())
    } else {
        Err(objections)
    }
}
