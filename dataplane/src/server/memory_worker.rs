//! Work whose duration an application controls through the size of its memory: allocating, sealing
//! and freeing it.
//!
//! The kernel needs up to 2 ms for each MiB of huge pages that it creates, and some hundred
//! milliseconds to free a gibibyte. The host thread serves all clients, so it leaves such work to
//! two threads. One thread does small jobs only, so that they never wait behind large ones. Each
//! thread serves users in turn.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    thread::{self, JoinHandle},
};

use covalent_pipe::{PipeMemory, PipeSpec, region::RegionMemory};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{handover::Unmapped, turns::Turns};
use crate::mailbox::Mailbox;

/// Memory of this size or more is large. Smaller memory has no huge pages and takes a fraction of a
/// millisecond.
const LARGE_BYTES: u64 = 2 << 20;

/// Thread names: for small jobs, for large jobs.
const NAMES: [&str; 2] = ["covalent-mem-s", "covalent-mem-l"];

/// Jobs in flight: one per thread.
const REPORTS_MAX: usize = NAMES.len();

/// A job for a worker.
#[derive(Debug)]
pub enum Job {
    /// Make the memory of a pipe.
    MakePipe(PipeSpec),
    /// Make a region of so many bytes.
    MakeRegion(u64),
    /// Prevent holes in this memory, and fill those it has: see [`Unmapped::seal`].
    Seal(Box<Unmapped>),
    /// Drop the memory: it is no longer in use.
    Release(Released),
}

/// Something that holds memory, of which only the end is of interest.
pub struct Released {
    thing: Box<dyn Send>,
    /// How many mappings it has.
    pub mappings: u32,
}

/// The result of a job. Texts give the reason of a failure.
#[derive(Debug)]
pub enum Done {
    /// The memory of a pipe, with its descriptors twice: to hand over and to keep.
    Pipe(Result<(PipeMemory, [Vec<OwnedFd>; 2]), String>),
    /// A region, with its descriptor to hand over and to keep.
    Region(Result<(RegionMemory, [OwnedFd; 2]), String>),
    /// The memory is sealed: no process can punch holes into it any more.
    Sealed(Box<Unmapped>, Result<(), String>),
    /// It is freed.
    Released,
    /// The job was never begun, because no client waits for it any more. Holds the memory that was
    /// to be sealed.
    Canceled(Option<Box<Unmapped>>),
}

/// The threads and their queues. Dropping this stops the threads after their current jobs.
#[derive(Debug)]
pub struct MemoryWorkers {
    workers: Vec<Worker>,
    reports: Arc<Mailbox<Report>>,
}

#[derive(Debug)]
struct Worker {
    orders: Arc<Mailbox<Order>>,
    waiting: Turns<(u64, Job)>,
    /// It has a job.
    busy: bool,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Order {
    Do(u64, Job),
    Stop,
}

#[derive(Debug)]
struct Report {
    worker: usize,
    ticket: u64,
    done: Done,
}

impl MemoryWorkers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system has no thread or no event descriptor to give.
    pub fn start() -> io::Result<Self> {
        let reports = Arc::new(Mailbox::new(REPORTS_MAX)?);
        let mut workers = Self {
            workers: Vec::with_capacity(NAMES.len()),
            reports,
        };
        for (index, name) in NAMES.into_iter().enumerate() {
            // The job, and beside it the order to stop.
            let orders = Arc::new(Mailbox::new(2)?);
            let (own_orders, reports) = (orders.clone(), workers.reports.clone());
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || work(index, &own_orders, &reports))?;
            workers.workers.push(Worker {
                orders,
                waiting: Turns::new(),
                busy: false,
                thread: Some(thread),
            });
        }
        Ok(workers)
    }

    /// Queues `job`, on memory of `bytes` bytes, for user `uid`. [`MemoryWorkers::next_done`]
    /// reports its end under `ticket`.
    pub fn push(&mut self, uid: u32, bytes: u64, ticket: u64, job: Job) {
        let index = usize::from(bytes >= LARGE_BYTES);
        if let Some(worker) = self.workers.get_mut(index) {
            worker.waiting.push(uid, (ticket, job));
            worker.begin_next();
        }
    }

    /// Cancels the job of user `uid` under `ticket` if it has not begun and frees nothing. A result
    /// returned here is not reported again.
    pub fn cancel(&mut self, uid: u32, ticket: u64) -> Option<Done> {
        let (_, job) = self.workers.iter_mut().find_map(|worker| {
            let is_it =
                |(waiting, job): &(u64, Job)| *waiting == ticket && !matches!(job, Job::Release(_));
            worker.waiting.take(uid, is_it)
        })?;
        Some(Done::Canceled(match job {
            Job::Seal(unmapped) => Some(unmapped),
            Job::MakePipe(_) | Job::MakeRegion(_) | Job::Release(_) => None,
        }))
    }

    /// Returns the ticket and the result of a finished job.
    pub fn next_done(&mut self) -> Option<(u64, Done)> {
        let report = self.reports.pop()?;
        if let Some(worker) = self.workers.get_mut(report.worker) {
            worker.busy = false;
            worker.begin_next();
        }
        Some((report.ticket, report.done))
    }

    /// Clears the doorbell of finished jobs. Check for finished jobs afterwards.
    pub fn silence(&self) {
        self.reports.silence();
    }
}

impl AsFd for MemoryWorkers {
    /// Rings when a job has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }
}

impl Drop for MemoryWorkers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // There is space: the mailbox holds one job at most.
            let _ = worker.orders.push(Order::Stop);
        }
        for worker in &mut self.workers {
            if worker
                .thread
                .take()
                .is_some_and(|thread| thread.join().is_err())
            {
                tracing::warn!("a thread for memory panicked");
            }
        }
    }
}

impl Worker {
    fn begin_next(&mut self) {
        if self.busy {
            return;
        }
        if let Some((ticket, job)) = self.waiting.pop() {
            // There is space: the mailbox holds no job.
            let _ = self.orders.push(Order::Do(ticket, job));
            self.busy = true;
        }
    }
}

impl Released {
    /// Holds `thing`, which has so many mappings, until it is dropped.
    pub fn new(mappings: u32, thing: impl Send + 'static) -> Self {
        Self {
            thing: Box::new(thing),
            mappings,
        }
    }
}

impl std::fmt::Debug for Released {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Released")
            .field("mappings", &self.mappings)
            .finish_non_exhaustive()
    }
}

fn work(worker: usize, orders: &Mailbox<Order>, reports: &Mailbox<Report>) {
    loop {
        // An interrupted wait is a look too many.
        let _ = poll(
            &mut [PollFd::new(orders.as_fd(), PollFlags::POLLIN)],
            PollTimeout::NONE,
        );
        orders.silence();
        while let Some(order) = orders.pop() {
            let Order::Do(ticket, job) = order else {
                return;
            };
            let done = job.run();
            // There is space: no other job begins before this report is taken.
            let _ = reports.push(Report {
                worker,
                ticket,
                done,
            });
        }
    }
}

impl Job {
    fn run(self) -> Done {
        match self {
            Self::MakePipe(spec) => Done::Pipe(make_pipe(&spec)),
            Self::MakeRegion(size_bytes) => Done::Region(make_region(size_bytes)),
            Self::Seal(mut unmapped) => {
                let sealed = unmapped.seal();
                Done::Sealed(unmapped, sealed)
            }
            Self::Release(released) => {
                drop(released.thing);
                Done::Released
            }
        }
    }
}

fn make_pipe(spec: &PipeSpec) -> Result<(PipeMemory, [Vec<OwnedFd>; 2]), String> {
    let memory = PipeMemory::create(spec).map_err(|error| error.to_string())?;
    let mut fds = [Vec::with_capacity(2), Vec::with_capacity(2)];
    for clones in &mut fds {
        for fd in memory.fds() {
            clones.push(fd.try_clone_to_owned().map_err(super::no_descriptors)?);
        }
    }
    Ok((memory, fds))
}

fn make_region(size_bytes: u64) -> Result<(RegionMemory, [OwnedFd; 2]), String> {
    let (memory, fd) = RegionMemory::create(size_bytes).map_err(|error| error.to_string())?;
    let kept = fd.try_clone().map_err(super::no_descriptors)?;
    Ok((memory, [fd, kept]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        sync::mpsc,
        time::{Duration, Instant},
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// Blocks the thread that drops it until its sender is gone.
    struct Obstacle(mpsc::Receiver<()>);

    impl Drop for Obstacle {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    fn obstacle() -> (mpsc::Sender<()>, Job) {
        let (go_on, held_up) = mpsc::channel();
        (go_on, Job::Release(Released::new(0, Obstacle(held_up))))
    }

    fn nothing() -> Job {
        Job::Release(Released::new(0, ()))
    }

    fn ended(workers: &mut MemoryWorkers, count: usize) -> Vec<u64> {
        let mut tickets = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while tickets.len() < count {
            assert!(Instant::now() < deadline, "{tickets:?} ended in time");
            let left = PollTimeout::try_from(Duration::from_millis(100)).unwrap();
            poll(&mut [PollFd::new(workers.as_fd(), PollFlags::POLLIN)], left).unwrap();
            workers.silence();
            tickets.extend(std::iter::from_fn(|| workers.next_done()).map(|(ticket, _)| ticket));
        }
        tickets
    }

    #[test]
    fn a_small_job_never_waits_for_a_large_one() {
        let mut workers = MemoryWorkers::start().unwrap();
        let (go_on, long) = obstacle();
        workers.push(1000, LARGE_BYTES, 1, long);
        workers.push(1000, LARGE_BYTES, 2, nothing());
        workers.push(1000, LARGE_BYTES - 1, 3, nothing());
        assert_eq!(ended(&mut workers, 1), [3]);
        drop(go_on);
        assert_eq!(ended(&mut workers, 2), [1, 2]);
    }

    #[test]
    fn users_take_turns_and_waiting_jobs_can_be_canceled() {
        let mut workers = MemoryWorkers::start().unwrap();
        let (go_on, long) = obstacle();
        workers.push(1000, LARGE_BYTES, 1, long);
        for ticket in 2..5 {
            workers.push(1000, LARGE_BYTES, ticket, Job::MakeRegion(8));
        }
        workers.push(1000, LARGE_BYTES, 5, nothing());
        workers.push(1001, LARGE_BYTES, 10, nothing());
        assert!(workers.cancel(1000, 1).is_none(), "it has begun");
        assert!(workers.cancel(1001, 3).is_none(), "it is another's");
        assert!(
            workers.cancel(1000, 5).is_none(),
            "its memory must be freed"
        );
        assert!(matches!(
            workers.cancel(1000, 3),
            Some(Done::Canceled(None))
        ));
        drop(go_on);
        // Job 2 was next before the other user came.
        assert_eq!(ended(&mut workers, 5), [1, 2, 10, 4, 5]);
    }
}
