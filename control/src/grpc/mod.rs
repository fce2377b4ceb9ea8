//! Telemetry over gRPC: the metrics of `/metrics` and the events of the daemon as streams, in the
//! schema of `covalent-grpc-schema`.
//!
//! A stream is generated at the rate at which its reader accepts data, without a queue. A sample is
//! taken when it is due and there is space. An event is read from those that are kept. A stalled
//! reader therefore costs only the data in flight to it, and learns afterwards what it missed.
//!
//! | module | what |
//! |---|---|
//! | `sampler` | samples, shared by all who want one at about the same time |
//! | `filter` | which series a client wants |
//! | `changes` | what is another one than before |
//! | `schedule` | when a sample is due, and how many were not taken |
//! | `watch`, `events` | the two streams |
//! | `convert` | metrics as the schema has them |
//! | `serve` | the socket, the address, connections and their bounds |
//! | `uses` | what a connection is used for, and when it is not any more |

mod changes;
mod convert;
mod events;
mod filter;
mod sampler;
mod schedule;
mod serve;
mod uses;
mod watch;

use std::{pin::Pin, time::Duration};

use axum::Router;
use covalent_grpc_schema::{
    INTERVAL_MS, INTERVAL_MS_DEFAULT, SCHEMA,
    v1::{
        self, DescribeRequest, Description, Event, EventsRequest, GetRequest, Sample, WatchRequest,
        telemetry_server::{Telemetry, TelemetryServer},
    },
};
use futures::Stream;
use tonic::{Request, Response, Status, service::Routes};

pub use self::serve::{CONNECTIONS, SocketName, bind, serve};
use self::{events::Following, filter::Filter, sampler::Sampler, watch::Watching};
use crate::{
    clients::{Bounds, Place, Places, Principal},
    http::Pages,
    metrics,
    recent::Recent,
};

/// Maximum number of concurrent streams. Each sample of a stream costs the daemon one status,
/// unless streams share it. Other users cannot fill the slots reserved for root and the node's
/// user.
pub const STREAMS: Bounds = Bounds {
    all: 16,
    strangers: 12,
    each: 6,
};

/// Longest request, in bytes: enough for the longest filter.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Most kinds of event in one request.
const KINDS_MAX: usize = 64;

type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Implementation of the telemetry service.
struct TelemetryService {
    sampler: Sampler,
    recent: Recent,
    streams: Places,
}

/// The schema served by reflection cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the schema of telemetry: {0}")]
pub struct SchemaError(#[from] tonic_reflection::server::Error);

/// The services: telemetry, and reflection in both of its versions.
///
/// # Errors
/// [`SchemaError`], which the tests exclude.
pub fn router(pages: Pages, recent: Recent) -> Result<Router, SchemaError> {
    let telemetry_service = TelemetryService {
        sampler: Sampler::new(pages),
        recent,
        streams: Places::new(STREAMS),
    };
    let reflection = || {
        tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(SCHEMA)
    };
    let telemetry =
        TelemetryServer::new(telemetry_service).max_decoding_message_size(REQUEST_BYTES_MAX);
    let routes = Routes::new(telemetry)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    Ok(routes.prepare().into_axum_router())
}

impl TelemetryService {
    /// Takes a slot for a stream of the sender of `request`.
    fn place<T>(&self, request: &Request<T>) -> Result<Place, Status> {
        let principal = request.extensions().get().copied();
        let taken = self.streams.take(principal.unwrap_or(Principal::Network));
        taken.map_err(|full| Status::resource_exhausted(format!("streams: {full}")))
    }
}

#[tonic::async_trait]
impl Telemetry for TelemetryService {
    type WatchStream = Replies<Sample>;
    type EventsStream = Replies<Event>;

    async fn describe(
        &self,
        _request: Request<DescribeRequest>,
    ) -> Result<Response<Description>, Status> {
        let declared = metrics::sections().into_iter();
        let metrics = declared
            .flat_map(|section| section.metrics)
            .map(|metric| convert::metric(&metric))
            .collect();
        Ok(Response::new(Description { metrics }))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<Sample>, Status> {
        let filter = filter(request.into_inner().filter)?;
        let taken = self.sampler.take().await;
        Ok(Response::new(Sample {
            number: 1,
            families: filter.of(&taken.families),
            ..taken.head()
        }))
    }

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let place = self.place(&request);
        let WatchRequest {
            filter: wanted,
            interval_ms,
            changes_only,
        } = request.into_inner();
        let interval = interval(interval_ms)?;
        let filter = filter(wanted)?;
        let watching = Watching::new(self.sampler.clone(), filter, interval, changes_only, place?);
        Ok(Response::new(Box::pin(watching.samples())))
    }

    async fn events(
        &self,
        request: Request<EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        let place = self.place(&request);
        let request = request.into_inner();
        check_kinds(&request.kinds)?;
        let following = Following::new(self.recent.clone(), request, place?);
        Ok(Response::new(Box::pin(following.events())))
    }
}

fn filter(wanted: Option<v1::Filter>) -> Result<Filter, Status> {
    Filter::new(wanted.unwrap_or_default()).map_err(Status::invalid_argument)
}

fn interval(interval_ms: u32) -> Result<Duration, Status> {
    let interval_ms = match interval_ms {
        0 => INTERVAL_MS_DEFAULT,
        some => some,
    };
    if INTERVAL_MS.contains(&interval_ms) {
        return Ok(Duration::from_millis(interval_ms.into()));
    }
    Err(Status::invalid_argument(format!(
        "interval_ms is {interval_ms}; expected {} to {}",
        INTERVAL_MS.start(),
        INTERVAL_MS.end()
    )))
}

fn check_kinds(kinds: &[String]) -> Result<(), Status> {
    if kinds.len() > KINDS_MAX {
        return Err(Status::invalid_argument(format!(
            "kinds has {} entries; expected at most {KINDS_MAX}",
            kinds.len()
        )));
    }
    match kinds
        .iter()
        .find(|kind| !metrics::EVENTS.contains(&kind.as_str()))
    {
        None => Ok(()),
        Some(unknown) => Err(Status::invalid_argument(format!(
            "kinds names `{unknown}`, which is no kind of event; expected some of {}",
            metrics::EVENTS.join(", ")
        ))),
    }
}
