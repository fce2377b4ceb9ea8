//! Running one job: its folder, its environment, its machine, its outcome.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, Result, bail};

use crate::{
    job::Job,
    machine::Machine,
    outcome::{self, Outcome, Verdict},
    place::Place,
    programs,
    stock::Stock,
};

/// Memory of a guest, which includes its writable overlay.
const MEMORY_MIB: u32 = 3072;

/// Runs a job. `programs` is the folder with Covalent's programs.
///
/// # Errors
/// When it could not be run; a job that ran and failed is no error.
pub fn job(place: &Place, stock: &Stock, programs: &Path, job: &Job) -> Result<Outcome> {
    let folder = place.target().join("runs").join(job.name());
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the run of before")?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let copy = |from: PathBuf, to: &str| {
        fs::copy(&from, folder.join(to))
            .map(|_| ())
            .with_context(|| format!("cannot copy {}", from.display()))
    };
    let scripts = place.scripts();
    copy(scripts.join("init/start.sh"), "start.sh")?;
    copy(scripts.join("jobs/prelude.sh"), "prelude.sh")?;
    copy(
        scripts.join("jobs").join(job.script).with_extension("sh"),
        "job.sh",
    )?;
    for sourced in ["nodes.sh", "rdma.sh"] {
        copy(scripts.join("jobs").join(sourced), sourced)?;
    }
    let tests = job
        .tests()
        .map(|tests| programs::tests(place, tests))
        .transpose()?;
    let daemon = job
        .tests()
        .and_then(|tests| tests.feature)
        .map(|feature| programs::daemon(place, feature))
        .transpose()?;
    let own = std::env::current_exe().context("where this program is")?;
    copy(own, "covalent-guest")?;
    let built = [("TESTS", tests), ("DAEMON", daemon)];
    let environment = environment(place, stock, programs, &built, job)?;
    fs::write(folder.join("environment.sh"), environment)
        .context("cannot write a job's environment")?;

    let kernel = stock.kernel(job.line)?;
    let machine = Machine {
        kernel: &kernel,
        nic: job.nic,
        iommu: job.iommu,
        memory_mib: MEMORY_MIB,
        quick_clock: job.measures,
    };
    let began = Instant::now();
    let ending = machine.run(stock, &folder, job.deadline)?;
    let (verdict, facts) = outcome::read(&folder, ending);
    Ok(Outcome {
        job: job.name(),
        script: job.script.to_owned(),
        line: job.line,
        kernel: kernel.release().to_owned(),
        nic: job.nic,
        verdict,
        facts,
        seconds: began.elapsed().as_secs(),
    })
}

/// Where the console of a job's last run is.
pub fn console(place: &Place, job: &Job) -> PathBuf {
    place
        .target()
        .join("runs")
        .join(job.name())
        .join("console.log")
}

/// Whether an outcome is one to be content with.
pub fn is_well(outcome: &Outcome) -> bool {
    matches!(outcome.verdict, Verdict::Passed | Verdict::Skipped)
}

/// Variables that a job's script reads.
fn environment(
    place: &Place,
    stock: &Stock,
    programs: &Path,
    built: &[(&str, Option<PathBuf>)],
    job: &Job,
) -> Result<String> {
    let tools = stock.tools();
    let mut text = String::new();
    let built = built.iter().map(|(name, path)| {
        let path = path.as_ref().map(|path| path.display().to_string());
        (*name, path.unwrap_or_default())
    });
    let fact_values = [
        ("PROGRAMS", programs.display().to_string()),
        ("REPOSITORY", place.repository().display().to_string()),
        ("TOOLS", tools.display().to_string()),
        ("DRIVER", job.nic.map_or("", |nic| nic.driver()).to_owned()),
        ("XDP", job.xdp.to_owned()),
        ("COPY", job.copy.to_owned()),
    ];
    for (name, value) in fact_values.into_iter().chain(built) {
        if value.contains('\'') {
            bail!("`{value}` has a quote in it, which a job's environment cannot hold");
        }
        text += &format!("{name}='{value}'\n");
    }
    Ok(text)
}
