//! Programs of the system that are run to their end.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs `command` and returns its standard output. Its standard error is shown only if it fails.
///
/// # Errors
/// The command cannot be started, or it exits with a nonzero status. The error then contains its
/// output.
pub fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| {
        format!("cannot run `{program}`\n  cure: run `scripts/install-packages guest`")
    })?;
    if !output.status.success() {
        bail!(
            "`{program}` failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{program}` printed invalid UTF-8"))
}
