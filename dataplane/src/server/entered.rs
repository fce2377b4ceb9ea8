//! After a change of the configuration: the ports that came and went, and the applications that are
//! affected and may not know it.

use covalent_api::event::EventKind;
use tracing::warn;

use super::{PortTable, Server, opener::Job};
use crate::{carrier::CarrierWatch, port::Port};

impl Server {
    /// Ports were removed and opened by numbers. Returns the affected parties that may not know.
    /// `before`: the ports before the change.
    pub(super) fn enter_ports(
        &mut self,
        before: &PortTable,
        removed: &[u16],
        opened: &[u16],
    ) -> Vec<String> {
        if opened.is_empty() && removed.is_empty() {
            return Vec::new();
        }
        let mut beware = Vec::new();
        for &number in removed {
            let name = before.get(number).map(|port| port.name.clone());
            beware.extend(self.pipes_on(number).map(|affected| {
                format!(
                    "{affected} on `{}`, which was removed, and wait until it returns",
                    name.clone().unwrap_or_default()
                )
            }));
        }
        for &number in opened {
            let Some(port) = self.ports.get(number).map(|port| port.name.clone()) else {
                continue;
            };
            beware.extend(self.pipes_on(number).map(|affected| {
                format!(
                    "{affected} on `{port}`, which was reopened: data in flight there may be lost"
                )
            }));
            self.raise(EventKind::PortOpened { port });
        }
        self.recheck_carriers();
        beware
    }

    /// Ports were closed for a configuration that was refused, and are open as before, but for the
    /// absent ones.
    pub(super) fn restored(&mut self, opened: &[u16], absent: Vec<(String, String)>) {
        if opened.is_empty() {
            return;
        }
        for (port, reason) in absent {
            self.raise(EventKind::PortAbsent { port, reason });
        }
        // Carrier reports in the meantime went to the ports in their places.
        self.recheck_carriers();
    }

    /// Returns the sessions whose pipes name this port.
    fn pipes_on(&self, number: u16) -> impl Iterator<Item = String> {
        let mut affected = Vec::new();
        for (session, record) in &self.sessions {
            let pipes = record.pipes.values();
            let (count, verb) = match pipes.filter(|pipe| pipe.port == Some(number)).count() {
                0 => continue,
                1 => ("1 pipe".to_owned(), "is"),
                many => (format!("{many} pipes"), "are"),
            };
            let client = self.clients.get(&record.client);
            let process = client.map_or_else(String::new, |client| {
                format!(" (pid {}, {})", client.credentials.pid, client.program)
            });
            affected.push(format!("{count} of session {session}{process} {verb}"));
        }
        affected.into_iter()
    }

    /// Queries the carrier of each interface, so that ports opened in the meantime receive it.
    fn recheck_carriers(&mut self) {
        let mut ports = self.config.port.iter();
        if !ports.any(|port| port.kind.kernel_interface().is_some()) {
            return;
        }
        let rechecked = match &mut self.carriers {
            Some(carriers) => carriers.recheck(),
            none => CarrierWatch::open().map(|carriers| *none = Some(carriers)),
        };
        if let Err(error) = rechecked {
            warn!(%error, "the interfaces' carriers cannot be watched; links rely on their own \
                evidence");
        }
    }

    pub(super) fn close(&self, ports: Vec<Box<dyn Port>>) {
        if !ports.is_empty() {
            self.agreements.opener().give(Job::Close(ports));
        }
    }
}
