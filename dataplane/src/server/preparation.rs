//! What is done with a draft before lanes are asked to take it: it is read, compared with what is in force, and what can be opened beside that is opened.

use std::sync::Arc;

use covalent_api::{
    agreement::Objection,
    config::{Config, Effect, PortKind, changes},
};
use covalent_protocol::agreement::digest;

use super::{
    opener::{Opened, open_all},
    port_plan::PortPlan,
};
use crate::{
    daemon::{FaultInjection, StartError, check_cores},
    port,
};

/// A draft to look at.
#[derive(Debug)]
pub struct Draft {
    /// Its text.
    pub text: String,
    /// The digest that it was offered by.
    pub digest: u64,
    /// What is in force.
    pub now: Arc<Config>,
    /// Whether ports may damage their own frames.
    pub faults: FaultInjection,
    /// Names of ports that are closed and opened again.
    pub reopen: Vec<String>,
}

/// What is ready for the lanes.
#[derive(Debug)]
pub struct Prepared {
    /// The configuration.
    pub config: Arc<Config>,
    /// Keys whose value is another one.
    pub changed: Vec<String>,
    /// Which ports are opened, and when.
    pub plan: PortPlan,
    /// Those that are open already.
    pub opened: Vec<Opened>,
}

/// What came of a draft.
pub type Preparation = Result<Prepared, Vec<Objection>>;

/// Looks at a draft.
///
/// # Errors
/// Everything that stands in the way. Nothing is left open then.
pub(super) fn prepare(draft: &Draft) -> Preparation {
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
    // Who looks for what is in force later finds the text by its digest.
    if config.to_toml().ok().as_deref() != Some(draft.text.as_str()) {
        return Err(whole(
            "the draft is not in canonical form: offer what `Config::to_toml` writes".to_owned(),
        ));
    }
    let changes = changes(&draft.now, &config);
    let mut objections: Vec<Objection> = changes
        .iter()
        .filter(|change| change.effect == Effect::Restart)
        .map(|change| Objection {
            message: format!(
                "is read at covalentd's start only, and is {} in force: put that back in place of {}, or restart covalentd",
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
                message: StartError::Faults { port }.to_string(),
            }
        }));
    }
    let reopened = draft.reopen.iter();
    objections.extend(reopened.filter_map(|name| no_reopening(name, &draft.now, &config)));
    if !objections.is_empty() {
        return Err(objections);
    }
    if let Err(error) = check_cores(&config) {
        let key = match &error {
            StartError::NoSuchCore { lane, .. } => format!("lane[{lane}].core"),
            _ => String::new(),
        };
        let message = error.to_string();
        return Err(vec![Objection { key, message }]);
    }
    // Last, for it changes something on the host.
    let plan = PortPlan::new(&draft.now.port, &config.port, &draft.reopen);
    look_at(&config, &plan.after)?;
    let opened = open_all(&config, &plan.beside)?;
    Ok(Prepared {
        config: Arc::new(config),
        plan,
        opened,
        changed: changes.into_iter().map(|change| change.key).collect(),
    })
}

/// What is in the way of opening that port again, by its name.
fn no_reopening(name: &str, now: &Config, wanted: &Config) -> Option<Objection> {
    let at = wanted.port.iter().position(|port| port.name == name);
    let is_in_force = now.port.iter().any(|port| port.name == name);
    let message = match at.map(|at| &wanted.port[at].kind) {
        Some(PortKind::AfXdp { .. } | PortKind::Cable { .. }) if is_in_force => return None,
        Some(PortKind::Dpdk { .. }) => {
            "is on DPDK, whose devices are set up at covalentd's start only: restart covalentd"
                .to_owned()
        }
        Some(PortKind::Pcap { .. }) => {
            "is a capture, which has no device that may have changed".to_owned()
        }
        _ => format!("there is no port `{name}` to be opened again"),
    };
    let key = at.map_or_else(String::new, |at| format!("port[{at}]"));
    Some(Objection { key, message })
}

/// Looks whether ports could be opened for which others give way: what is known to be in the way is told before anything is closed.
fn look_at(config: &Config, places: &[usize]) -> Result<(), Vec<Objection>> {
    let looked = places.iter().filter_map(|&at| {
        let error = port::look(&config.port[at]).err()?;
        Some(Objection {
            key: format!("port[{at}]"),
            message: error.to_string(),
        })
    });
    let objections: Vec<_> = looked.collect();
    if objections.is_empty() {
        Ok(())
    } else {
        Err(objections)
    }
}
