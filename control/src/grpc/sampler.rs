//! Samples of all metrics, shared by clients that request one at about the same time.

use std::{
    sync::{Arc, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use covalent_grpc_schema::v1::{Family, Sample};
use tokio::{sync::Mutex, time::Instant};

use super::convert;
use crate::{http::Pages, metrics};

/// Maximum age of a served sample. The daemon is thus queried at most twenty times a second, for
/// any number of watchers.
const FRESH: Duration = Duration::from_millis(50);

/// Takes samples. Clones share them.
#[derive(Clone)]
pub struct Sampler(Arc<Shared>);

struct Shared {
    pages: Pages,
    since: Instant,
    /// The last sample, as long as a watcher holds it.
    last: Mutex<Weak<Taken>>,
}

/// All metrics at one time.
pub struct Taken {
    at: Instant,
    head: Sample,
    /// Those with at least one series.
    pub families: Vec<Family>,
}

impl Sampler {
    /// Creates a sampler with the sources of `pages`.
    pub fn new(pages: Pages) -> Self {
        Self(Arc::new(Shared {
            pages,
            since: Instant::now(),
            last: Mutex::default(),
        }))
    }

    /// All metrics as they are now.
    pub async fn take(&self) -> Arc<Taken> {
        // Requesters that arrive while a query is in flight wait here, and share its sample.
        let mut last = self.0.last.lock().await;
        if let Some(taken) = last.upgrade().filter(|taken| taken.at.elapsed() < FRESH) {
            return taken;
        }
        let taken = Arc::new(self.0.take().await);
        *last = Arc::downgrade(&taken);
        taken
    }
}

impl Shared {
    async fn take(&self) -> Taken {
        let Pages {
            node, own, daemon, ..
        } = &self.pages;
        let answer = daemon.status().await;
        let at = Instant::now();
        let families = metrics::families(node, own, answer.as_deref().ok());
        let realtime = SystemTime::now().duration_since(UNIX_EPOCH);
        let head = Sample {
            realtime_ns: nanoseconds(realtime.unwrap_or_default()),
            monotonic_ns: nanoseconds(at.duration_since(self.since)),
            node: node.clone(),
            daemon_answers: answer.is_ok(),
            daemon_problem: answer.map_or_else(|problem| problem.to_string(), |_| String::new()),
            ..Sample::default()
        };
        Taken {
            at,
            head,
            families: families.iter().map(convert::family).collect(),
        }
    }
}

impl Taken {
    /// The sample without families and without a number.
    pub fn head(&self) -> Sample {
        self.head.clone()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
