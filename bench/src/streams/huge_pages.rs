//! Huge pages for a measurement, given back after it.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::stop;

/// Where the kernel keeps the number of 2 MiB pages.
const PLACE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// How long pages that are given back may take to be gone.
const GOING: Duration = Duration::from_secs(2);

/// How often it is looked whether another gave its pages back.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of starts of a program whose pages other processes took.
const STARTS_MAX: u32 = 5;

/// Reserved pages. Dropping the value restores the number of pages.
#[derive(Debug)]
pub struct HugePages {
    place: PathBuf,
    before: u64,
    /// Lock against other benchmarks and tests that change the number. Two that overlap would each
    /// restore the number that the other had set, and the pages would stay reserved.
    _turn: File,
}

impl HugePages {
    /// Ensures that `wanted` pages are free. Waits until no other benchmark or test of this host
    /// holds the lock.
    pub fn reserve(wanted: u64) -> Result<Self> {
        Self::reserve_at(PLACE.into(), wanted)
    }

    fn reserve_at(place: PathBuf, wanted: u64) -> Result<Self> {
        let turn = take_turn(&place.join("nr_hugepages"))?;
        // Surplus pages are in use and vanish when their user exits, but the kernel frees some late
        // (AF_XDP packet memory). Wait, else `before` would include them.
        let deadline = Instant::now() + GOING;
        while read(&place, "surplus_hugepages")? > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let all = read(&place, "nr_hugepages")?;
        let before = all.saturating_sub(read(&place, "surplus_hugepages")?);
        let reserved = Self {
            place,
            before,
            _turn: turn,
        };
        // If this fails, dropping `reserved` restores the number.
        free_up(&reserved.place, wanted)?;
        Ok(reserved)
    }

    /// Starts a program that takes `wanted` pages, which the caller has reserved. If other
    /// processes took some of them first, reserves as many again and restarts the program.
    pub fn start<T>(wanted: u64, start: impl FnMut() -> Result<T>) -> Result<T> {
        Self::start_at(Path::new(PLACE), wanted, start)
    }

    fn start_at<T>(place: &Path, wanted: u64, mut start: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 1..STARTS_MAX {
            match start() {
                Err(problem) if problem.is::<stop::Stopped>() => return Err(problem),
                Err(problem) if read(place, "free_hugepages")? < wanted => {
                    let _ = writeln!(
                        io::stderr(),
                        "starting again, for others took huge pages: {problem:#}"
                    );
                    free_up(place, wanted)?;
                }
                ended => return ended,
            }
        }
        start()
    }
}

/// One of the numbers at `place`.
fn read(place: &Path, name: &str) -> Result<u64> {
    let path = place.join(name);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("reading {}: this kernel has no 2 MiB pages", path.display()))?;
    text.trim()
        .parse()
        .with_context(|| format!("{} holds {text:?}", path.display()))
}

/// Reserves the missing pages, so that `wanted` are free.
fn free_up(place: &Path, wanted: u64) -> Result<()> {
    let free = read(place, "free_hugepages")?;
    if free >= wanted {
        return Ok(());
    }
    let all = read(place, "nr_hugepages")?;
    let path = place.join("nr_hugepages");
    fs::write(&path, (all + wanted - free).to_string()).with_context(|| {
        format!(
            "reserving {wanted} huge pages at {}: it needs root",
            path.display()
        )
    })?;
    let now = read(place, "free_hugepages")?;
    if now < wanted {
        bail!(
            "the kernel has {now} free huge pages of {wanted}: memory is too scattered or too full"
        );
    }
    Ok(())
}

/// The file that holds the number, locked.
fn take_turn(path: &Path) -> Result<File> {
    let reading = || format!("reading {}: this kernel has no 2 MiB pages", path.display());
    let file = File::open(path).with_context(reading)?;
    let mut waits = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(problem)) => return Err(problem).with_context(reading),
        }
        if !waits {
            // Its terminal may be closed.
            let _ = writeln!(
                io::stderr(),
                "waiting for another benchmark or test to give its huge pages back: it has {} \
                 locked (`lslocks` names it)",
                path.display()
            );
            waits = true;
        }
        stop::sleep(RECHECK_INTERVAL)?;
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // A failure cannot be reported here. The pages then stay reserved until the number is
        // written again.
        let _ = fs::write(self.place.join("nr_hugepages"), self.before.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(total: &str, free: &str) -> tempfile::TempDir {
        place_with_surplus(total, free, "0\n")
    }

    fn place_with_surplus(total: &str, free: &str, surplus: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a directory");
        fs::write(folder.path().join("nr_hugepages"), total).expect("written");
        fs::write(folder.path().join("free_hugepages"), free).expect("written");
        fs::write(folder.path().join("surplus_hugepages"), surplus).expect("written");
        folder
    }

    fn number(folder: &tempfile::TempDir) -> String {
        let text = fs::read_to_string(folder.path().join("nr_hugepages")).expect("readable");
        text.trim().to_owned()
    }

    #[test]
    fn free_pages_are_not_reserved_again() {
        let folder = place("10\n", "9\n");
        let _pages = HugePages::reserve_at(folder.path().to_owned(), 8).expect("enough");
        assert_eq!(number(&folder), "10");
    }

    #[test]
    fn as_many_pages_as_others_took_are_reserved_before_another_start() {
        let folder = place("10\n", "8\n");
        let pages = HugePages::reserve_at(folder.path().to_owned(), 8).expect("enough");
        let free = folder.path().join("free_hugepages");
        let started = HugePages::start_at(folder.path(), 8, || -> Result<()> {
            fs::write(&free, "5").expect("written");
            bail!("no memory")
        });
        // Three more pages are requested. A kernel would free them; this fake directory has none,
        // so the start fails.
        assert!(started.is_err_and(|problem| problem.to_string().contains("5 free huge pages")));
        assert_eq!(number(&folder), "13");
        fs::write(&free, "8").expect("written");
        let started = HugePages::start_at(folder.path(), 8, || Ok(number(&folder)));
        assert_eq!(started.expect("enough"), "13");
        let mut starts = 0;
        let failed = HugePages::start_at(folder.path(), 8, || -> Result<()> {
            starts += 1;
            bail!("no such device")
        });
        assert_eq!(failed.expect_err("none").to_string(), "no such device");
        assert_eq!(
            starts, 1,
            "a failure without a lack of pages is not retried"
        );
        drop(pages);
        assert_eq!(number(&folder), "10");
    }

    /// Uses the pages of this host: the first start finds them taken.
    #[test]
    fn a_program_that_lost_its_pages_to_others_is_restarted() {
        use nix::{
            fcntl::{FallocateFlags, fallocate},
            sys::memfd::{MFdFlags, memfd_create},
            unistd::ftruncate,
        };
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: reserving huge pages needs root");
            return;
        }
        let _pages = HugePages::reserve(2).expect("a host with memory");
        let mut taken = None;
        let mut starts = 0;
        let started = HugePages::start(2, || {
            starts += 1;
            if taken.is_none() {
                let bytes = i64::try_from(read(Path::new(PLACE), "free_hugepages")? << 21)?;
                let flags = MFdFlags::MFD_HUGETLB | MFdFlags::MFD_HUGE_2MB;
                let memory = memfd_create("taken", flags)?;
                ftruncate(&memory, bytes)?;
                fallocate(&memory, FallocateFlags::empty(), 0, bytes)?;
                taken = Some(memory);
                bail!("no memory");
            }
            Ok(starts)
        });
        assert_eq!(started.expect("it starts"), 2);
    }

    #[test]
    fn pages_that_are_about_to_go_are_neither_counted_on_nor_kept() {
        let folder = place_with_surplus("30\n", "2\n", "20\n");
        HugePages::reserve_at(folder.path().to_owned(), 8).expect_err("too few");
        assert_eq!(number(&folder), "10");
    }

    #[test]
    fn a_second_reservation_waits_for_the_first() {
        let folder = place("10\n", "8\n");
        let first = HugePages::reserve_at(folder.path().to_owned(), 8).expect("enough");
        let place = folder.path().to_owned();
        let second = std::thread::spawn(move || HugePages::reserve_at(place, 8).map(|_| ()));
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(!second.is_finished());
        drop(first);
        second.join().expect("no panic").expect("enough");
    }

    #[test]
    fn a_shortage_is_reported_and_the_number_restored() {
        let folder = place("10\n", "2\n");
        // Free pages do not grow here, as with a kernel that has none left.
        let problem = HugePages::reserve_at(folder.path().to_owned(), 8)
            .expect_err("too few")
            .to_string();
        assert!(problem.contains("2 free huge pages of 8"), "{problem}");
        assert_eq!(number(&folder), "10");
    }
}
