//! A stream of samples.

use std::{sync::Arc, time::Duration};

use covalent_grpc_schema::v1::Sample;
use futures::{Stream, stream};
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::{
    changes::changes,
    filter::Filter,
    sampler::{Sampler, Taken},
    schedule::Schedule,
};
use crate::clients::Place;

/// A client that watches.
pub struct Watching {
    sampler: Sampler,
    filter: Filter,
    schedule: Schedule,
    changes_only: bool,
    /// Samples sent.
    sent: u64,
    /// The last one.
    last: Option<Arc<Taken>>,
    _place: Place,
}

impl Watching {
    /// Requests a sample now, and one after each `interval`.
    pub fn new(
        sampler: Sampler,
        filter: Filter,
        interval: Duration,
        changes_only: bool,
        place: Place,
    ) -> Self {
        Self {
            sampler,
            filter,
            schedule: Schedule::new(interval, Instant::now()),
            changes_only,
            sent: 0,
            last: None,
            _place: place,
        }
    }

    /// The samples. The stream is polled for the next one only when the client has space for it.
    pub fn samples(self) -> impl Stream<Item = Result<Sample, Status>> {
        stream::unfold(self, async |mut watching| {
            let sample = watching.next().await;
            Some((Ok(sample), watching))
        })
    }

    async fn next(&mut self) -> Sample {
        sleep_until(self.schedule.due()).await;
        let skipped_samples = self.schedule.take(Instant::now());
        let taken = self.sampler.take().await;
        let mut families = self.filter.of(&taken.families);
        let mut gone = Vec::new();
        if let Some(last) = self.last.as_ref().filter(|_| self.changes_only) {
            let before = self.filter.of(&last.families);
            (families, gone) = changes(&before, &families);
        }
        self.sent += 1;
        let sample = Sample {
            number: self.sent,
            skipped_samples,
            families,
            gone,
            ..taken.head()
        };
        self.last = Some(taken);
        sample
    }
}
