//! State machine of a bank client. It opens no device: the caller posts the verb that
//! [`Client::next_verb`] returns and passes its completion to [`Client::completed`].

use std::{collections::VecDeque, time::Duration};

use covalent::{CommitWord, Outcome, Refusal};
use serde::Serialize;

pub use crate::bank::request::Request;
use crate::{
    bank::{
        intervals::{Digest, Intervals},
        layout,
    },
    random::Random,
};

/// Problems that are kept word for word; further ones are only counted.
const PROBLEMS_KEPT: usize = 8;

/// Draws of a pair of accounts before a transfer waits for a quieter moment.
const DRAWS_MAX: usize = 8;

/// Pause after the first attempt at a taken lock; each further one doubles it.
const LOCK_PAUSE_MIN: Duration = Duration::from_micros(8);

/// Longest pause between two attempts.
const LOCK_PAUSE_MAX: Duration = Duration::from_millis(1);

/// Most money moved at a time.
const AMOUNT_MAX: u64 = 100;

/// The work of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Additions to the counter.
    pub fetch_adds: u64,
    /// Transfers between two accounts.
    pub transfers: u64,
    /// Sections under the lock.
    pub locks: u64,
    /// The delta of each addition, at least 1.
    pub delta: u64,
    /// Jobs in flight at a time, at least 1.
    pub depth: u32,
    /// Chooses accounts and amounts.
    pub seed: u64,
    /// This client's number in the lock's word: not zero, and no other client's.
    pub holder: u64,
}

/// Jobs by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Additions to the counter.
    pub fetch_adds: u64,
    /// Transfers between two accounts.
    pub transfers: u64,
    /// Sections under the lock.
    pub locks: u64,
}

/// Verbs that were done again, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Retries {
    /// A transfer's accounts had changed meanwhile.
    pub transfer_changed: u64,
    /// Another client held the lock.
    pub lock_taken: u64,
    /// The executing node had no resources.
    pub no_resources: u64,
    /// An exchange that was still open held a word of the verb.
    pub busy: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Idle,
    Add,
    Transfer {
        from: u32,
        to: u32,
    },
    Acquiring,
    Reading,
    Writing,
    Releasing,
    /// Gives the lock back after a problem in the section: others must not wait for it for ever.
    Abandoning,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Add,
    Transfer,
    Lock,
}

/// One client.
#[derive(Debug)]
pub struct Client {
    plan: Plan,
    random: Random,
    /// Last known balances. Other clients move money too, so a balance may be stale; the mismatch
    /// of a transfer corrects it.
    balances: Vec<u64>,
    /// Accounts that a transfer of this client is about now.
    busy: Vec<bool>,
    jobs: Vec<Job>,
    /// Jobs whose verb is in doubt.
    doubted: Vec<bool>,
    requests: Vec<Request>,
    free: Vec<u32>,
    ready: VecDeque<u32>,
    started: Counts,
    done: Counts,
    lock_in_use: bool,
    /// The job that pauses before it tries the lock again, and for how long.
    pausing: Option<(u32, Duration)>,
    /// Attempts at the lock, one after the other, that found it taken.
    lock_misses: u32,
    /// The holder's number at the last of these attempts.
    lock_holder: u64,
    intervals: Intervals,
    retries: Retries,
    in_doubt: u64,
    in_doubt_seen: u64,
    problems: Vec<String>,
    problems_count: u64,
    starts_no_more: bool,
}

impl Client {
    /// A client of a bank of `accounts` accounts, 2 or more, that began with `balance` each.
    #[must_use]
    pub fn new(plan: Plan, accounts: u32, balance: u64) -> Self {
        let depth = plan.depth.max(1);
        Self {
            plan,
            random: Random::new(plan.seed),
            balances: vec![balance; accounts as usize],
            busy: vec![false; accounts as usize],
            jobs: vec![Job::Idle; depth as usize],
            doubted: vec![false; depth as usize],
            requests: vec![Request::ReadGuarded; depth as usize],
            free: (0..depth).rev().collect(),
            ready: VecDeque::with_capacity(depth as usize),
            started: Counts::default(),
            done: Counts::default(),
            lock_in_use: false,
            pausing: None,
            lock_misses: 0,
            lock_holder: 0,
            intervals: Intervals::new(plan.delta, plan.fetch_adds as usize),
            retries: Retries::default(),
            in_doubt: 0,
            in_doubt_seen: 0,
            problems: Vec::new(),
            problems_count: 0,
            starts_no_more: false,
        }
    }

    /// Returns the next verb to post and the number to pass as its user data. `None`: the client
    /// can only wait.
    pub fn next_verb(&mut self) -> Option<(u64, Request)> {
        let job = match self.ready.pop_front() {
            Some(job) => job,
            None => self.start()?,
        };
        Some((u64::from(job), self.requests[job as usize]))
    }

    /// The queue had no room for the verb of [`Client::next_verb`], which returns it again.
    pub fn not_posted(&mut self, user_data: u64) {
        self.ready.push_front(user_data as u32);
    }

    /// Processes a verb's completion; `data` is what a read returned. An unexpected completion is
    /// recorded as a problem and never panics.
    pub fn completed(&mut self, user_data: u64, outcome: &Outcome, data: &[u8]) {
        let Some(job) = usize::try_from(user_data)
            .ok()
            .filter(|job| *job < self.jobs.len())
        else {
            return self.problem(format!("a completion for {user_data}, which is no job"));
        };
        if self.jobs[job] == Job::Idle {
            return self.problem(format!(
                "a completion for job {job}, which is idle: {outcome:?}"
            ));
        }
        if !outcome.is_final() {
            self.doubted[job] = true;
            self.in_doubt += 1;
            self.in_doubt_seen += 1;
            return;
        }
        if std::mem::take(&mut self.doubted[job]) {
            self.in_doubt -= 1;
        }
        match (self.jobs[job], outcome) {
            (_, Outcome::Refused(Refusal::NoResources)) => {
                self.retries.no_resources += 1;
                self.ready.push_back(job as u32);
            }
            (Job::Acquiring, Outcome::Refused(Refusal::Busy)) => {
                // Another exchange takes or releases the lock at this moment.
                self.retries.busy += 1;
                self.try_lock_later(job);
            }
            (_, Outcome::Refused(Refusal::Busy)) => {
                self.retries.busy += 1;
                self.ready.push_back(job as u32);
            }
            (Job::Add, Outcome::Old(found)) => {
                self.intervals.add(*found);
                self.done.fetch_adds += 1;
                self.finish(job);
            }
            (Job::Transfer { from, to }, Outcome::Done) => {
                let Request::Transfer { words } = self.requests[job] else {
                    return;
                };
                self.balances[from as usize] = words[0].new;
                self.balances[to as usize] = words[1].new;
                self.busy[from as usize] = false;
                self.busy[to as usize] = false;
                self.done.transfers += 1;
                self.finish(job);
            }
            (Job::Transfer { from, to }, Outcome::Mismatch { index, found }) => {
                self.retries.transfer_changed += 1;
                self.balances[if *index == 0 { from } else { to } as usize] = *found;
                self.requests[job] = self.transfer(from, to);
                self.ready.push_back(job as u32);
            }
            (Job::Acquiring, Outcome::Mismatch { found, .. }) => self.lock_is_taken(job, *found),
            (Job::Acquiring, Outcome::Old(_)) => {
                self.lock_misses = 0;
                self.step(job, Job::Reading, Request::ReadGuarded);
            }
            (Job::Reading, Outcome::Data { .. }) => self.read_guarded(job, data),
            (Job::Writing, Outcome::Done) => {
                self.step(
                    job,
                    Job::Releasing,
                    Request::Release {
                        holder: self.plan.holder,
                    },
                );
            }
            (Job::Releasing, Outcome::Old(_)) => {
                self.done.locks += 1;
                self.lock_in_use = false;
                self.finish(job);
            }
            (Job::Abandoning, Outcome::Old(_)) => self.give_up(job),
            (Job::Releasing | Job::Abandoning, Outcome::Mismatch { found, .. }) => {
                self.problem(format!(
                    "the lock was held and yet holds {found:#x} at its release"
                ));
                self.give_up(job);
            }
            (state @ (Job::Reading | Job::Writing), outcome) => {
                self.problem(format!("{state:?} ended with {outcome:?}"));
                self.abandon(job);
            }
            (state, outcome) => {
                self.problem(format!("{state:?} ended with {outcome:?}"));
                self.give_up(job);
            }
        }
    }

    /// Starts no further job. Jobs in flight finish, so no lock stays taken. A job that waits for
    /// another client's lock is dropped.
    pub fn start_no_more(&mut self) {
        self.starts_no_more = true;
        if let Some((job, _)) = self.pausing.take() {
            self.drop_lock_job(job as usize);
        }
    }

    /// Returns the time to wait until [`Client::retry_lock`], from the completion that started
    /// the pause. `None`: no job waits.
    #[must_use]
    pub fn lock_pause(&self) -> Option<Duration> {
        self.pausing.map(|(_, pause)| pause)
    }

    /// The pause is over.
    pub fn retry_lock(&mut self) {
        if let Some((job, _)) = self.pausing.take() {
            self.ready.push_back(job);
        }
    }

    /// Returns the holder that the last attempts at the lock found, and the number of consecutive
    /// failed attempts.
    #[must_use]
    pub const fn lock_held_by(&self) -> Option<(u64, u32)> {
        if self.lock_misses == 0 {
            None
        } else {
            Some((self.lock_holder, self.lock_misses))
        }
    }

    /// Whether nothing is left to do or to wait for.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.free.len() == self.jobs.len() && (self.starts_no_more || self.pick().is_none())
    }

    /// Whether the whole plan was carried out.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.done.fetch_adds == self.plan.fetch_adds
            && self.done.transfers == self.plan.transfers
            && self.done.locks == self.plan.locks
    }

    /// Jobs done.
    #[must_use]
    pub const fn done(&self) -> Counts {
        self.done
    }

    /// Jobs done, of all kinds.
    #[must_use]
    pub const fn finished_jobs(&self) -> u64 {
        self.done.fetch_adds + self.done.transfers + self.done.locks
    }

    /// Jobs in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// Verbs done again.
    #[must_use]
    pub const fn retries(&self) -> Retries {
        self.retries
    }

    /// Verbs in doubt now.
    #[must_use]
    pub const fn in_doubt(&self) -> u64 {
        self.in_doubt
    }

    /// Times that a verb was reported in doubt.
    #[must_use]
    pub const fn in_doubt_seen(&self) -> u64 {
        self.in_doubt_seen
    }

    /// Returns the problems, which must never happen: the texts of the first few, and the total
    /// number.
    #[must_use]
    pub fn problems(&self) -> (&[String], u64) {
        (&self.problems, self.problems_count)
    }

    /// Checks the values that the counter's additions returned.
    #[must_use]
    pub fn into_digest(self) -> Digest {
        self.intervals.digest()
    }

    fn start(&mut self) -> Option<u32> {
        if self.starts_no_more {
            return None;
        }
        let kind = self.pick()?;
        let job = *self.free.last()?;
        let (state, request) = match kind {
            Kind::Add => {
                self.started.fetch_adds += 1;
                (
                    Job::Add,
                    Request::Add {
                        delta: self.plan.delta,
                    },
                )
            }
            Kind::Transfer => {
                let (from, to) = self.draw_pair()?;
                self.started.transfers += 1;
                self.busy[from as usize] = true;
                self.busy[to as usize] = true;
                (Job::Transfer { from, to }, self.transfer(from, to))
            }
            Kind::Lock => {
                self.started.locks += 1;
                self.lock_in_use = true;
                (
                    Job::Acquiring,
                    Request::Acquire {
                        holder: self.plan.holder,
                    },
                )
            }
        };
        self.free.pop();
        self.jobs[job as usize] = state;
        self.requests[job as usize] = request;
        Some(job)
    }

    /// Picks the kind of job that is furthest behind its share, so that all kinds run until the
    /// client finishes.
    fn pick(&self) -> Option<Kind> {
        let plan = &self.plan;
        let mut choice = None;
        let mut furthest = f64::INFINITY;
        for (kind, started, planned, allowed) in [
            (Kind::Add, self.started.fetch_adds, plan.fetch_adds, true),
            (Kind::Transfer, self.started.transfers, plan.transfers, true),
            // A client never waits for its own lock.
            (
                Kind::Lock,
                self.started.locks,
                plan.locks,
                !self.lock_in_use,
            ),
        ] {
            if allowed && started < planned {
                let share = started as f64 / planned as f64;
                if share < furthest {
                    furthest = share;
                    choice = Some(kind);
                }
            }
        }
        choice
    }

    fn draw_pair(&mut self) -> Option<(u32, u32)> {
        let accounts = self.balances.len() as u64;
        for _ in 0..DRAWS_MAX {
            let from = self.random.below(accounts);
            let to = (from + 1 + self.random.below(accounts - 1)) % accounts;
            if !self.busy[from as usize] && !self.busy[to as usize] {
                return Some((from as u32, to as u32));
            }
        }
        None
    }

    fn transfer(&mut self, from: u32, to: u32) -> Request {
        let (from_balance, to_balance) = (self.balances[from as usize], self.balances[to as usize]);
        // Never move more than the account holds. An empty account moves 0, which is a commit like
        // any other.
        let amount = self.random.below(AMOUNT_MAX.min(from_balance) + 1);
        let word = |index, expected, new| CommitWord {
            offset_bytes: layout::account(index),
            expected,
            new,
        };
        Request::Transfer {
            words: [
                word(from, from_balance, from_balance - amount),
                word(to, to_balance, to_balance.wrapping_add(amount)),
            ],
        }
    }

    fn read_guarded(&mut self, job: usize, bytes: &[u8]) {
        let Ok(pair) = <[u8; layout::GUARDED_BYTES as usize]>::try_from(bytes) else {
            self.problem(format!(
                "a read of the guarded pair returned {} bytes",
                bytes.len()
            ));
            return self.abandon(job);
        };
        let [first, second] = words(pair);
        if first != second {
            self.problem(format!(
                "the guarded pair is {first} and {second}: two clients were in the section at once"
            ));
        }
        let pair = bytes_of([first.wrapping_add(1), second.wrapping_add(1)]);
        self.step(job, Job::Writing, Request::WriteGuarded { pair });
    }

    fn lock_is_taken(&mut self, job: usize, holder: u64) {
        self.retries.lock_taken += 1;
        self.lock_holder = holder;
        self.try_lock_later(job);
        self.lock_misses = self.lock_misses.saturating_add(1);
    }

    /// Tries again after a pause that doubles with each failed attempt, up to a bound. Attempts
    /// without a pause would take lane time from other clients and from the holder.
    fn try_lock_later(&mut self, job: usize) {
        let pause = LOCK_PAUSE_MIN
            .saturating_mul(1 << self.lock_misses.min(16))
            .min(LOCK_PAUSE_MAX);
        if self.starts_no_more {
            self.drop_lock_job(job);
        } else {
            self.pausing = Some((job as u32, pause));
        }
    }

    /// Ends a job that has not got the lock.
    fn drop_lock_job(&mut self, job: usize) {
        self.lock_in_use = false;
        self.finish(job);
    }

    /// Ends a section that cannot go on, and with it the run.
    fn abandon(&mut self, job: usize) {
        self.starts_no_more = true;
        self.step(
            job,
            Job::Abandoning,
            Request::Release {
                holder: self.plan.holder,
            },
        );
    }

    fn step(&mut self, job: usize, state: Job, request: Request) {
        self.jobs[job] = state;
        self.requests[job] = request;
        self.ready.push_back(job as u32);
    }

    fn finish(&mut self, job: usize) {
        self.jobs[job] = Job::Idle;
        self.free.push(job as u32);
    }

    /// Ends a job that cannot continue, and the run: further jobs would only repeat the problem.
    fn give_up(&mut self, job: usize) {
        self.starts_no_more = true;
        self.finish(job);
    }

    fn problem(&mut self, text: String) {
        self.problems_count += 1;
        if self.problems.len() < PROBLEMS_KEPT {
            self.problems.push(text);
        }
    }
}

/// A pair of words as its bytes lie in a region: little-endian.
const fn bytes_of(pair: [u64; 2]) -> [u8; 16] {
    let packed = pair[0] as u128 | (pair[1] as u128) << 64;
    packed.to_le_bytes()
}

const fn words(bytes: [u8; 16]) -> [u64; 2] {
    let packed = u128::from_le_bytes(bytes);
    [packed as u64, (packed >> 64) as u64]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use covalent::InDoubtId;

    use super::*;

    const ACCOUNTS: u32 = 8;
    const BALANCE: u64 = 50;

    /// How a verb ended, and what it read.
    struct End(Outcome, Vec<u8>);

    impl From<Outcome> for End {
        fn from(outcome: Outcome) -> Self {
            Self(outcome, Vec::new())
        }
    }

    impl End {
        fn of_read(data: &[u8]) -> Self {
            let len_bytes = data.len() as u32;
            Self(Outcome::Data { len_bytes }, data.to_vec())
        }

        fn reach(&self, client: &mut Client, user_data: u64) {
            client.completed(user_data, &self.0, &self.1);
        }
    }

    /// The region, executing verbs one after the other.
    struct Region(Vec<u64>);

    impl Region {
        fn new() -> Self {
            let mut words = vec![0; layout::region_bytes(ACCOUNTS) as usize / 8];
            words[layout::FIRST_ACCOUNT as usize / 8..].fill(BALANCE);
            Self(words)
        }

        fn word(&mut self, offset: u64) -> &mut u64 {
            &mut self.0[offset as usize / 8]
        }

        fn execute(&mut self, request: &Request) -> End {
            let (offset, expected, new) = match request {
                Request::Add { delta } => {
                    let word = self.word(layout::COUNTER);
                    let old = *word;
                    *word += delta;
                    return Outcome::Old(old).into();
                }
                Request::Acquire { holder } => (layout::LOCK, 0, *holder),
                Request::Release { holder } => (layout::LOCK, *holder, 0),
                Request::ReadGuarded => {
                    let pair = [*self.word(layout::GUARDED), *self.word(layout::GUARDED + 8)];
                    return End::of_read(&bytes_of(pair));
                }
                Request::WriteGuarded { pair } => {
                    let [first, second] = words(*pair);
                    *self.word(layout::GUARDED) = first;
                    *self.word(layout::GUARDED + 8) = second;
                    return Outcome::Done.into();
                }
                Request::Transfer { words } => {
                    for (index, word) in words.iter().enumerate() {
                        let found = *self.word(word.offset_bytes);
                        if found != word.expected {
                            let index = index as u16;
                            return Outcome::Mismatch { index, found }.into();
                        }
                    }
                    for word in words {
                        *self.word(word.offset_bytes) = word.new;
                    }
                    return Outcome::Done.into();
                }
            };
            let word = self.word(offset);
            let found = *word;
            if found != expected {
                return Outcome::Mismatch { index: 0, found }.into();
            }
            *word = new;
            Outcome::Old(found).into()
        }

        fn accounts_sum(&self) -> u64 {
            self.0[layout::FIRST_ACCOUNT as usize / 8..].iter().sum()
        }
    }

    fn plan(number: u64) -> Plan {
        Plan {
            fetch_adds: 500,
            transfers: 200,
            locks: 50,
            delta: 3,
            depth: 7,
            seed: number,
            holder: number + 1,
        }
    }

    /// Runs three clients with completions in random order. If `twice` is n, a request posted in
    /// every n-th turn executes twice.
    fn run(seed: u64, twice: Option<u64>) -> (Region, Vec<Client>) {
        let mut region = Region::new();
        let mut random = Random::new(seed);
        let mut clients: Vec<_> = (0..3)
            .map(|number| Client::new(plan(number), ACCOUNTS, BALANCE))
            .collect();
        let mut executed = Vec::new();
        for turn in 0..1_000_000u64 {
            if clients.iter().all(Client::is_finished) {
                return (region, clients);
            }
            let number = random.below(3) as usize;
            if random.below(3) == 0 {
                clients[number].retry_lock();
            }
            if random.below(2) == 0 {
                if let Some((user_data, request)) = clients[number].next_verb() {
                    if random.below(10) == 0 {
                        clients[number].not_posted(user_data);
                        continue;
                    }
                    // As where another exchange holds a word of the request: nothing is executed.
                    let is_busy = random.below(8) == 0;
                    let end = if is_busy {
                        Outcome::Refused(Refusal::Busy).into()
                    } else {
                        region.execute(&request)
                    };
                    if !is_busy && twice.is_some_and(|every| turn % every == 0) {
                        region.execute(&request);
                    }
                    executed.push((number, user_data, end));
                }
            } else if !executed.is_empty() {
                let (number, user_data, end) =
                    executed.swap_remove(random.below(executed.len() as u64) as usize);
                if random.below(20) == 0 {
                    let in_doubt = InDoubtId::from_bytes(&[0; InDoubtId::BYTES]);
                    clients[number].completed(user_data, &Outcome::InDoubt(in_doubt), &[]);
                    assert_eq!(clients[number].in_doubt(), 1);
                }
                end.reach(&mut clients[number], user_data);
            }
        }
        panic!("the clients never finish");
    }

    #[test]
    fn books_balance_for_any_order_of_completions() {
        for seed in 0..20 {
            let (mut region, clients) = run(seed, None);
            let counter = *region.word(layout::COUNTER);
            let mut digest = Digest::default();
            for client in clients {
                assert!(client.is_complete());
                assert_eq!(client.problems(), (&[][..], 0));
                assert_eq!(client.in_doubt(), 0);
                assert!(client.retries().busy > 50, "{:?}", client.retries());
                digest = digest.with(client.into_digest());
            }
            assert_eq!(counter, 3 * 500 * 3);
            assert!(digest.tiles(counter), "seed {seed}");
            assert_eq!(region.accounts_sum(), u64::from(ACCOUNTS) * BALANCE);
            assert_eq!(*region.word(layout::LOCK), 0);
            assert_eq!(
                (
                    *region.word(layout::GUARDED),
                    *region.word(layout::GUARDED + 8)
                ),
                (150, 150)
            );
        }
    }

    #[test]
    fn a_verb_executed_twice_is_found_out() {
        let (mut region, clients) = run(1, Some(97));
        let counter = *region.word(layout::COUNTER);
        let digest = clients.into_iter().fold(Digest::default(), |sum, client| {
            sum.with(client.into_digest())
        });
        assert!(!digest.tiles(counter));
    }

    #[test]
    fn an_impossible_value_is_a_problem_and_ends_the_run() {
        let mut client = Client::new(plan(0), ACCOUNTS, BALANCE);
        client.completed(0, &Outcome::Done, &[]);
        client.completed(u64::MAX, &Outcome::Done, &[]);
        assert_eq!(client.problems().1, 2);
        let (job, _) = client.next_verb().unwrap();
        client.completed(job, &Outcome::PeerRestarted, &[]);
        assert_eq!(client.problems().1, 3);
        assert_eq!(client.next_verb(), None);
        assert!(client.is_finished() && !client.is_complete());
    }

    #[test]
    fn never_more_jobs_than_the_depth_and_never_two_sections_at_once() {
        let mut client = Client::new(
            Plan {
                locks: 1000,
                fetch_adds: 0,
                transfers: 0,
                ..plan(0)
            },
            ACCOUNTS,
            BALANCE,
        );
        assert!(client.next_verb().is_some());
        assert_eq!(client.next_verb(), None);
        let mut client = Client::new(plan(0), ACCOUNTS, BALANCE);
        let mut posted = 0;
        while client.next_verb().is_some() {
            posted += 1;
        }
        assert_eq!(posted, 7);
    }

    #[test]
    fn a_stopped_client_finishes_its_jobs_in_flight() {
        let mut region = Region::new();
        let mut client = Client::new(
            Plan {
                fetch_adds: 0,
                transfers: 0,
                ..plan(0)
            },
            ACCOUNTS,
            BALANCE,
        );
        let (mut job, mut request) = client.next_verb().unwrap();
        client.start_no_more();
        for _ in 0..4 {
            assert!(!client.is_finished());
            region.execute(&request).reach(&mut client, job);
            let Some(next) = client.next_verb() else {
                break;
            };
            (job, request) = next;
        }
        assert!(client.is_finished());
        assert_eq!(*region.word(layout::LOCK), 0);
        assert_eq!(client.done().locks, 1);
    }

    fn only_locks() -> Client {
        let plan = Plan {
            fetch_adds: 0,
            transfers: 0,
            ..plan(0)
        };
        Client::new(plan, ACCOUNTS, BALANCE)
    }

    #[test]
    fn retries_on_the_lock_of_a_dead_holder_back_off_and_end_on_stop() {
        const DEAD: u64 = 0xdead;
        let mut region = Region::new();
        *region.word(layout::LOCK) = DEAD;
        let mut client = only_locks();
        let mut pauses = Vec::new();
        for _ in 0..40 {
            let (job, request) = client.next_verb().unwrap();
            region.execute(&request).reach(&mut client, job);
            assert_eq!(client.next_verb(), None, "no attempt without a pause");
            pauses.push(client.lock_pause().unwrap());
            client.retry_lock();
        }
        assert!(pauses.is_sorted() && pauses[0] == LOCK_PAUSE_MIN && pauses[39] == LOCK_PAUSE_MAX);
        assert_eq!(client.lock_held_by(), Some((DEAD, 40)));
        assert_eq!(client.finished_jobs(), 0);

        // Stop requested while an attempt is in flight: this attempt is the last.
        let (job, request) = client.next_verb().unwrap();
        client.start_no_more();
        assert!(!client.is_finished());
        region.execute(&request).reach(&mut client, job);
        assert!(client.is_finished() && client.lock_pause().is_none());

        // Stop requested during a pause: no further attempt follows.
        let mut client = only_locks();
        let (job, request) = client.next_verb().unwrap();
        region.execute(&request).reach(&mut client, job);
        client.start_no_more();
        assert!(client.is_finished());
        assert_eq!(client.problems().1, 0);
    }

    #[test]
    fn a_problem_in_the_critical_section_releases_the_lock() {
        let failures = [
            (
                Job::Reading,
                Outcome::Refused(Refusal::UnknownRegion).into(),
            ),
            (Job::Reading, End::of_read(&[1, 2, 3])),
            (
                Job::Writing,
                Outcome::Refused(Refusal::UnknownRegion).into(),
            ),
        ];
        for (state, failure) in failures {
            let mut region = Region::new();
            let mut client = only_locks();
            let (mut job, mut request) = client.next_verb().unwrap();
            while client.jobs[job as usize] != state {
                region.execute(&request).reach(&mut client, job);
                (job, request) = client.next_verb().unwrap();
            }
            assert_ne!(*region.word(layout::LOCK), 0);
            failure.reach(&mut client, job);
            assert!(!client.is_finished(), "{state:?}: the lock is still taken");
            (job, request) = client.next_verb().unwrap();
            region.execute(&request).reach(&mut client, job);
            assert_eq!(*region.word(layout::LOCK), 0);
            assert!(client.is_finished());
            assert_eq!(
                (client.done().locks, client.problems().1),
                (0, 1),
                "a section given up is not done"
            );
        }
    }
}
