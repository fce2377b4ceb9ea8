//! `/metrics` from the counters in shared memory.
//!
//! A status holds only a few hundred pipes and queries every lane. The file holds all pipes and
//! needs no query. It also contains the names and help texts, from the same declarations.

use std::fmt::Write;

use covalent_api::metrics::flag;
use covalent_counters::{Number, Snapshot, escape};
use prometheus::TextEncoder;

use super::{OwnMetrics, UP, series::one};

/// The exposition text: control's own metrics, and the daemon's as it wrote them.
///
/// # Errors
/// [`prometheus::Error`] as in [`super::render`].
pub fn render_shared(
    node: &str,
    own: &OwnMetrics,
    snapshot: &Snapshot,
) -> Result<String, prometheus::Error> {
    let encoder = TextEncoder::new();
    let mut text = encoder.encode_to_string(&[one(&UP.family, node, &[], flag(true))])?;
    let mut of_node = String::new();
    escape(&mut of_node, "node", node);
    for (family, samples) in snapshot.families.iter().zip(snapshot.samples()) {
        if samples.is_empty() {
            continue;
        }
        let (name, kind) = (&family.name, family.kind.as_str());
        let help = family.help.replace('\\', "\\\\");
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for sample in samples {
            let comma = if sample.labels.is_empty() { "" } else { "," };
            let _ = write!(
                text,
                "{name}{}{{{of_node}{comma}{}}} ",
                sample.suffix, sample.labels
            );
            let _ = match sample.number {
                Number::Whole(count) => writeln!(text, "{count}"),
                other => writeln!(text, "{}", other.value()),
            };
        }
    }
    let mut own = own.families();
    own.retain(|family| !family.get_metric().is_empty());
    text += &encoder.encode_to_string(&own)?;
    Ok(text)
}
