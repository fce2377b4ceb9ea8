//! `covalent config auto`: the values that `auto` selects for the interfaces of this machine.

use anyhow::Result;
use covalent_config::{Amount, Config, HugePages, auto::Linux};
use serde_json::json;

use super::{
    facts::{Facts, Named},
    plan::Report,
    stage::Stage,
    stages,
    world::Machine,
};
use crate::{
    args::Format,
    output::{self, Cell, Table, Theme},
};

/// Prints the value that each `auto` of `config` selects on this machine, and why.
///
/// # Errors
/// Fails if the machine cannot be examined.
pub fn explain(config: &Config, format: Format) -> Result<()> {
    let facts = Facts::gather(&Machine::below("/"), config)?;
    match format {
        Format::Json => {
            let each = facts
                .interfaces
                .iter()
                .map(|named| of_interface(named, facts.linux));
            output::json(&each.collect::<Vec<_>>())
        }
        Format::Table => output::line(&table(Theme::of_stdout(), config, &facts).to_string()),
    }
}

fn table(theme: Theme, config: &Config, facts: &Facts) -> Table {
    let mut table = theme.new_table(["port", "interface", "what", "becomes", "because"]);
    for named in &facts.interfaces {
        for row in rows(named, facts.linux) {
            table.add_row(row.map(Cell::new));
        }
    }
    for row in of_machine(config, facts) {
        table.add_row(row.map(Cell::new));
    }
    table
}

/// The cells of a line.
type Row = [String; 5];

fn rows(named: &Named, linux: Linux) -> Vec<Row> {
    let (port, name) = (named.port.name.clone(), named.name.clone());
    if named.found.is_none() {
        let why = "there is no interface of that name here";
        return vec![[
            port,
            name,
            "everything".into(),
            "not known".into(),
            why.into(),
        ]];
    }
    let choices = named.choices(linux);
    let mut rows: Vec<Row> = choices
        .rows()
        .into_iter()
        .map(|(what, value, why)| [port.clone(), name.clone(), what.into(), value, why.into()])
        .collect();
    if let Some(why) = choices.obstacle(&named.auto_facts(linux)) {
        rows.push([port, name, "in the way".into(), String::new(), why]);
    }
    rows
}

/// Returns the rows that concern the whole machine.
fn of_machine(config: &Config, facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    if config.dataplane.huge_pages == HugePages::Auto {
        let free = facts.huge_pages.map_or(0, |pool| pool.free);
        let (becomes, why) = match free {
            0 => (
                "4 KiB pages",
                "no page of 2 MiB is reserved and free".to_owned(),
            ),
            free => (
                "2 MiB pages",
                format!("{free} are reserved and free, as far as they go"),
            ),
        };
        rows.push([
            String::new(),
            String::new(),
            "dataplane.huge_pages".into(),
            becomes.into(),
            why,
        ]);
    }
    if config.configure.huge_pages == Amount::Auto {
        for Report { found, .. } in stages::inspect(Stage::Hugepages, config, facts) {
            rows.push([
                String::new(),
                String::new(),
                "configure.huge_pages".into(),
                String::new(),
                found,
            ]);
        }
    }
    rows
}

fn of_interface(named: &Named, linux: Linux) -> serde_json::Value {
    let found = named.found.as_ref();
    json!({
        "port": named.port.name,
        "interface": named.name,
        "driver": named.driver,
        "linux": linux.to_string(),
        "auto": found.map(|_| named.choices(linux)),
        "in_the_way": found.and_then(|_| named.choices(linux).obstacle(&named.auto_facts(linux))),
    })
}

#[cfg(test)]
pub mod tests {
    use super::{super::stages::samples, *};
    use crate::output::walk;

    /// The widest choices.
    pub fn widest(theme: Theme) -> String {
        let mut facts = samples::facts();
        for named in &mut facts.interfaces {
            named.port.name = walk::NAME.into();
            named.name = walk::INTERFACE.into();
        }
        table(theme, &samples::config(""), &facts).to_string()
    }

    #[test]
    fn every_choice_is_a_line_with_its_reason() {
        let mut facts = samples::facts();
        let named = &mut facts.interfaces[0];
        let lines = rows(named, facts.linux);
        assert!(lines.len() >= 9, "{lines:?}");
        for line in &lines {
            assert_eq!(line[..2], ["p0", "eth1"]);
            assert!(line[2..].iter().all(|cell| !cell.is_empty()), "{line:?}");
        }
        let json = of_interface(named, facts.linux);
        assert_eq!(json["auto"]["copy"]["value"], "zero_copy");
        named.found.as_mut().expect("the sample is there").mtu_bytes = 9000;
        let obstacle = rows(named, facts.linux).pop().expect("a line");
        assert!(obstacle[4].contains("9000"), "{obstacle:?}");
        named.found = None;
        assert_eq!(rows(named, facts.linux).len(), 1);
        assert_eq!(
            of_interface(named, facts.linux)["auto"],
            serde_json::Value::Null
        );
    }

    #[test]
    fn pages_are_reported_for_the_whole_machine() {
        let facts = samples::facts();
        let lines = of_machine(&samples::config(""), &facts);
        assert!(lines[0][3].contains("4 KiB"), "{lines:?}");
        assert!(lines[1][4].contains("8 pages"), "{lines:?}");
        let never = samples::config(
            "[dataplane]\nhuge_pages = \"never\"\n[configure]\nhuge_pages = \"keep\"\n",
        );
        assert!(of_machine(&never, &facts).is_empty());
    }
}
