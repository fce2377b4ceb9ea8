//! `covalent steer`: the steering rules in force on a running node.

mod frames;

#[cfg(test)]
pub use self::tests::widest;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use covalent_api::{
    control::{ControlReply, ControlRequest, RuleBrief},
    rule::{Action, Rule},
};
use serde::Serialize;

use self::frames::FrameArgs;
use crate::{
    args::{ControlNodeArgs, Format},
    control_client::{self, put_in_force, unexpected},
    output::{self, Cell, Color, Table, Theme},
};

/// `covalent steer …`
#[derive(Debug, Subcommand)]
pub enum SteerCommand {
    /// Put a rule in force while the node runs, until the next reload of the configuration file.
    #[command(
        after_help = "Every lane and XDP program takes the rule, or none. It is not written to the \
            configuration file: the next `covalent reload` or start \
        of the node is without it. The same rule as lines for the file is printed.\n\n\
        Of several rules that apply the most specific wins: connection, address and port, port, \
        longest prefix, VLAN, EtherType, any. \
        A pipe that an application bound to the same frames wins over a rule.\n\n\
        Examples:\n  \
        sudo covalent steer add drop --transport udp --dst-port 53       all that is sent to a \
        port\n  \
        sudo covalent steer add kernel --dst 10.1.0.0/16                 all that is sent to a \
        prefix\n  \
        sudo covalent steer add dataplane --transport tcp --dst 192.0.2.1 --dst-port 80\n  \
        sudo covalent steer add drop --transport udp --src 192.0.2.9 --src-port 4000 --dst \
        192.0.2.1 --dst-port 53\n  \
        sudo covalent steer add dataplane --vlan 7\n  \
        sudo covalent steer add drop --ethertype 0x88cc"
    )]
    Add(AddArgs),
    /// Remove a rule while the node runs, until the configuration file is put in force again.
    #[command(
        after_help = "A rule of the configuration file can be taken away too; it is back after the \
            next `covalent reload` or start of the node, \
        unless the file is edited.\n\n\
        Examples:\n  \
        sudo covalent steer del --transport udp --dst-port 53\n  \
        sudo covalent steer del --dst 10.1.0.0/16"
    )]
    Del(DelArgs),
    /// List the rules in force, and mark those from the configuration file.
    #[command(
        after_help = "Frames that match no rule go where `dataplane.miss` directs them. The \
        bindings of applications' pipes are not listed.\n\n\
        Examples:\n  \
        sudo covalent steer list\n  \
        sudo covalent steer list --format json | jq '.[] | select(.in_file == false)'"
    )]
    List(ListArgs),
}

/// `covalent steer add`
#[derive(Debug, Args)]
pub struct AddArgs {
    /// The action on the frames.
    #[arg(value_enum, value_name = "ACTION")]
    action: Goes,
    #[command(flatten)]
    frames: FrameArgs,
    /// Which node.
    #[command(flatten)]
    node: ControlNodeArgs,
}

/// `covalent steer del`
#[derive(Debug, Args)]
pub struct DelArgs {
    #[command(flatten)]
    frames: FrameArgs,
    /// Which node.
    #[command(flatten)]
    node: ControlNodeArgs,
}

/// `covalent steer list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which node.
    #[command(flatten)]
    node: ControlNodeArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Where frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Goes {
    /// Pass to the kernel's network stack.
    Kernel,
    /// Pass to the dataplane, which looks for a matching pipe.
    Dataplane,
    /// Drop and count.
    Drop,
}

impl From<Goes> for Action {
    fn from(goes: Goes) -> Self {
        match goes {
            Goes::Kernel => Self::Kernel,
            Goes::Dataplane => Self::Dataplane,
            Goes::Drop => Self::Drop,
        }
    }
}

/// Runs `covalent steer …`.
///
/// # Errors
/// Fails if control does not reply, or if nothing was changed.
pub fn run(command: &SteerCommand) -> Result<ExitCode> {
    match command {
        SteerCommand::Add(args) => add(args)?,
        SteerCommand::Del(args) => del(args)?,
        SteerCommand::List(args) => list(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn add(args: &AddArgs) -> Result<()> {
    let rule = Rule {
        matches: args.frames.matches()?,
        action: args.action.into(),
    };
    let lines = lines(&rule)?;
    let request = ControlRequest::Steer {
        remove: Vec::new(),
        add: vec![rule.clone()],
    };
    let now = put_in_force(&control_client::socket(&args.node)?, &request)?;
    output::line(&format!(
        "in force under revision {}: {}, {}\n\
         until the configuration file is put in force again (`covalent reload`, or a start of the \
         node). To keep it, add to the file:\n\n{lines}",
        now.epoch, rule.matches, rule.action
    ))
}

fn del(args: &DelArgs) -> Result<()> {
    let matches = args.frames.matches()?;
    let summary = format!("no rule is about {matches} any more");
    let request = ControlRequest::Steer {
        remove: vec![matches],
        add: Vec::new(),
    };
    let now = put_in_force(&control_client::socket(&args.node)?, &request)?;
    output::line(&format!(
        "in force under revision {}: {summary}\n\
         until the configuration file is put in force again (`covalent reload`, or a start of the \
         node), if the rule is in it",
        now.epoch
    ))
}

/// Returns the rule in the format of a configuration file.
fn lines(rule: &Rule) -> Result<String> {
    #[derive(Serialize)]
    struct File<'a> {
        steer: [&'a Rule; 1],
    }
    Ok(toml::to_string(&File { steer: [rule] })?
        .trim_end()
        .to_owned())
}

fn list(args: &ListArgs) -> Result<()> {
    let rules = rules(args)?;
    match args.format {
        Format::Json => output::json(&rules),
        Format::Table if rules.is_empty() => output::line(
            "no rule is in force: frames go to the pipes that are bound to them, and others where \
             `dataplane.miss` directs them",
        ),
        Format::Table => output::line(&table(Theme::of_stdout(), &rules).to_string()),
    }
}

/// All rules of one configuration.
fn rules(args: &ListArgs) -> Result<Vec<RuleBrief>> {
    // How often another configuration may come in between.
    const TRIES: u32 = 8;
    let socket = control_client::socket(&args.node)?;
    for _ in 0..TRIES {
        let mut all = Vec::new();
        let mut first = None;
        loop {
            let from = u32::try_from(all.len())?;
            match control_client::send_request(&socket, &ControlRequest::Rules { from })? {
                ControlReply::Rules { held, .. } if *first.get_or_insert(held) != held => break,
                ControlReply::Rules { rules, next, .. } => {
                    all.extend(rules);
                    match next {
                        None => return Ok(all),
                        Some(next) if next as usize == all.len() && next > from => {}
                        Some(_) => bail!("covalent-control lost count of its rules"),
                    }
                }
                ControlReply::Refused { reason } => bail!("covalent-control refused: {reason}"),
                other => return Err(unexpected(&other)),
            }
        }
    }
    bail!("the rules changed {TRIES} times while they were read; try again")
}

fn table(theme: Theme, rules: &[RuleBrief]) -> Table {
    let mut table = theme.new_table(["frames", "go to", "in the file"]);
    for RuleBrief { rule, in_file } in rules {
        let action = match rule.action {
            Action::Drop => theme.cell("nowhere: dropped", Color::Red),
            Action::Kernel => Cell::new("the kernel"),
            Action::Dataplane => Cell::new("the dataplane"),
        };
        let in_file = match in_file {
            Some(true) => Cell::new("yes"),
            Some(false) => theme.cell("no: until the next reload", Color::Yellow),
            None => theme.cell("unknown: the file cannot be read", Color::Yellow),
        };
        table.add_row([Cell::new(&rule.matches), action, in_file]);
    }
    table
}

#[cfg(test)]
pub mod tests {
    use covalent_api::rule::{Match, Transport};
    use covalent_config::Config;

    use super::*;

    /// The widest rules.
    pub fn widest(theme: Theme) -> String {
        let address = "2001:0db8:1111:2222:3333:4444:5555:6666";
        let rule = Rule {
            matches: Match::FiveTuple {
                transport: Transport::Udp,
                src: address.parse().expect("an address"),
                src_port: 65535,
                dst: address.parse().expect("an address"),
                dst_port: 65535,
            },
            action: Action::Drop,
        };
        let rules = [None, Some(false)].map(|in_file| RuleBrief {
            rule: rule.clone(),
            in_file,
        });
        table(theme, &rules).to_string()
    }

    #[test]
    fn the_lines_for_the_file_express_the_rule() {
        let rule = Rule {
            matches: Match::FiveTuple {
                transport: Transport::Udp,
                src: "192.0.2.9".parse().expect("an address"),
                src_port: 4000,
                dst: "192.0.2.1".parse().expect("an address"),
                dst_port: 53,
            },
            action: Action::Drop,
        };
        let text = format!(
            "[node]\nname = \"a\"\n[[port]]\nname = \"p\"\nkind = \"cable\"\npath = \"/x\"\n{}\n",
            lines(&rule).expect("TOML")
        );
        let config = Config::parse(&text, "test").expect("a configuration");
        assert_eq!(config.steer, [rule]);
    }

    #[test]
    fn the_table_marks_rules_that_the_file_lacks() {
        let brief = |in_file| RuleBrief {
            rule: Rule {
                matches: Match::Vlan { vlan: 7 },
                action: Action::Drop,
            },
            in_file,
        };
        let text = table(Theme::PLAIN, &[brief(Some(true)), brief(Some(false))]).to_string();
        let lines: Vec<_> = text
            .lines()
            .filter(|line| line.contains("VLAN 7"))
            .collect();
        assert!(
            lines[0].contains("yes") && lines[1].contains("until the next reload"),
            "{text}"
        );
    }
}
