//! The commands of a `console` fence.
//!
//! A line that begins with `$ ` is a command on the first machine. A line that begins with
//! `machine-2$ ` is a command on that machine. Lines that begin with `> ` continue a command. Other
//! lines are its output.

use anyhow::{Context, Result, bail};

use crate::fence::Fence;

/// One command, and its output as shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The line of the page.
    pub line: usize,
    /// The machine that it is typed on, from 1.
    pub machine: usize,
    /// As it is typed.
    pub command: String,
    /// The lines behind it; none where the page shows none.
    pub shown: Vec<String>,
    /// The exit status that it ends with.
    pub status: i32,
    /// The command is repeated until it prints the output as shown.
    pub eventually: bool,
    /// Why it is not run by the tests, if it is not.
    pub skip: Option<String>,
}

/// Returns the steps of a fence, in order. A fence of another language has none.
///
/// # Errors
/// Returns the line that is no part of a console, or the unknown attribute.
pub fn steps(fence: &Fence) -> Result<Vec<Step>> {
    if fence.language != "console" {
        return Ok(Vec::new());
    }
    let mut machines = None;
    let mut status = 0;
    let mut eventually = false;
    let mut skip = None;
    for (name, value) in &fence.attributes {
        match (name.as_str(), value.as_str()) {
            ("on", "both") => machines = Some([1, 2].as_slice()),
            ("on", "machine-2") => machines = Some([2].as_slice()),
            ("status", value) => status = value.parse().context("`status` is a number")?,
            ("eventually", "") => eventually = true,
            ("skip", reason) if !reason.is_empty() => skip = Some(reason.to_owned()),
            _ => bail!("line {}: `{name}={value}` means nothing", fence.line),
        }
    }
    let machines = machines.unwrap_or(&[1]);
    let mut steps: Vec<Step> = Vec::new();
    // So many of the last steps are one command on several machines.
    let mut same = 0;
    for (at, line) in fence.text.lines().enumerate() {
        let line_number = fence.line + at;
        if let Some((machine, command)) = prompt(line) {
            let on = machine.as_ref().map_or(machines, std::slice::from_ref);
            same = on.len();
            steps.extend(on.iter().map(|&machine| Step {
                line: line_number,
                machine,
                command: command.to_owned(),
                shown: Vec::new(),
                status,
                eventually,
                skip: skip.clone(),
            }));
            continue;
        }
        let first = steps.len() - same;
        if first == steps.len() {
            bail!("line {line_number}: the first line of a console is a command: `{line}`");
        }
        for step in &mut steps[first..] {
            // A line that is empty behind the mark has no blank.
            let more = line.strip_prefix("> ").or((line == ">").then_some(""));
            match more {
                Some(more) if step.shown.is_empty() => {
                    step.command.push('\n');
                    step.command.push_str(more);
                }
                _ => step.shown.push(line.trim_end().to_owned()),
            }
        }
    }
    Ok(steps)
}

/// The machine that a prompt names, if it does, and the command behind it.
fn prompt(line: &str) -> Option<(Option<usize>, &str)> {
    if let Some(command) = line.strip_prefix("$ ") {
        return Some((None, command));
    }
    let (number, command) = line.strip_prefix("machine-")?.split_once("$ ")?;
    Some((Some(number.parse().ok()?), command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::fences;

    #[test]
    fn commands_run_on_their_machines_with_their_expected_output() {
        let page = "```console on=both eventually\n$ a\none\n$ cat <<X\n> b\n> X\nmachine-2$ \
            c\ntwo\nthree\n```\n";
        let steps = steps(&fences(page)[0]).expect("a console");
        let printed: Vec<_> = steps
            .iter()
            .map(|step| {
                (
                    step.line,
                    step.machine,
                    step.command.as_str(),
                    step.shown.len(),
                )
            })
            .collect();
        assert_eq!(
            printed,
            [
                (2, 1, "a", 1),
                (2, 2, "a", 1),
                (4, 1, "cat <<X\nb\nX", 0),
                (4, 2, "cat <<X\nb\nX", 0),
                (7, 2, "c", 2)
            ]
        );
        assert!(steps.iter().all(|step| step.eventually && step.status == 0));
    }

    #[test]
    fn an_invalid_console_is_reported() {
        for page in [
            "```console\nnot a command\n```\n",
            "```console on=all\n$ a\n```\n",
            "```console skip\n$ a\n```\n",
        ] {
            assert!(steps(&fences(page)[0]).is_err(), "{page}");
        }
    }
}
