//! `covalent status`: a running node, as tables.

mod args;
mod durable;
mod interfaces;
mod nodes;
mod render;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use covalent_config::daemon_socket;

pub use self::args::{ListArgs, StatusArgs};
pub use self::render::{kind as pipe_kind, lane, mode, render, silence};
use crate::{
    args::{Format, NodeArgs},
    client::Client,
    output::{self, Theme},
};

/// A port of a node, for tests.
#[cfg(test)]
pub fn sample_port() -> covalent_api::status::PortStatus {
    render::tests::sample().ports.remove(0)
}

/// A node, for tests.
#[cfg(test)]
pub fn sample_node() -> covalent_api::status::NodeStatus {
    render::tests::sample()
}

/// The widest tables, for a test.
#[cfg(test)]
pub fn widest(theme: Theme) -> String {
    let node = render::tests::widest();
    let interfaces = [interfaces::tests::widest()];
    [
        render(&node, &interfaces, theme),
        render::of_links(&node.links, theme),
        render::of_groups(&node.groups, theme),
        render::of_pipes(&node.pipes, 0, theme),
        nodes::render(&node, theme),
    ]
    .join("\n")
}

/// File name of the control process's socket.
const CONTROL_SOCKET: &str = "control.sock";

/// Runs `covalent status`.
///
/// # Errors
/// When no daemon answers.
pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    let socket = socket(&args.node)?;
    let status = Client::connect(&socket)?.status()?;
    let theme = Theme::of_stdout().showing_all(args.wide);
    match args.format {
        Format::Json if args.nodes => output::json(&status.nodes)?,
        Format::Table if args.nodes => {
            let text = nodes::render(&status, theme);
            output::line(text.trim_end())?;
        }
        Format::Json => output::json(&status)?,
        Format::Table => {
            // The two sockets of a node lie side by side.
            let interfaces = interfaces::of_control(&socket.with_file_name(CONTROL_SOCKET));
            let text = render(&status, &interfaces, theme);
            output::line(text.trim_end())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn theme(args: &ListArgs) -> Theme {
    Theme::of_stdout().showing_all(args.wide)
}

/// Runs `covalent links`.
///
/// # Errors
/// When no daemon answers.
pub fn links(args: &ListArgs) -> Result<ExitCode> {
    let status = Client::connect(&socket(&args.node)?)?.status()?;
    match args.format {
        Format::Json => output::json(&status.links)?,
        Format::Table => output::line(&render::of_links(&status.links, theme(args)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `covalent groups`.
///
/// # Errors
/// When no daemon answers.
pub fn groups(args: &ListArgs) -> Result<ExitCode> {
    let status = Client::connect(&socket(&args.node)?)?.status()?;
    match args.format {
        Format::Json => output::json(&status.groups)?,
        Format::Table => output::line(&render::of_groups(&status.groups, theme(args)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `covalent pipes`.
///
/// # Errors
/// When no daemon answers.
pub fn pipes(args: &ListArgs) -> Result<ExitCode> {
    let status = Client::connect(&socket(&args.node)?)?.status()?;
    match args.format {
        Format::Json => output::json(&status.pipes)?,
        Format::Table => {
            let text = render::of_pipes(&status.pipes, status.omitted, theme(args));
            output::line(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the given socket, else that of the configuration, else the default one. Without a named
/// file the installed one may be missing: an application's host need not have it.
///
/// # Errors
/// Fails if the configuration cannot be read.
pub fn socket(args: &NodeArgs) -> Result<PathBuf> {
    let file = args.config.named_or_installed();
    Ok(daemon_socket(args.socket.as_deref(), file)?)
}
