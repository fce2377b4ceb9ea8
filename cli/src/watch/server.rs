//! Control's telemetry, as the command line uses it.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, anyhow, bail};
use covalent_config::Config;
use covalent_grpc_schema::v1::{
    Event, EventsRequest, Sample, WatchRequest, telemetry_client::TelemetryClient,
};
use tokio::{runtime::Runtime, time::timeout};
use tonic::{
    Response, Status, Streaming,
    transport::{Channel, Endpoint},
};

use super::WatchArgs;
use crate::interrupt::Interrupt;

/// The default telemetry socket, if the configuration is not available.
const DEFAULT_SOCKET: &str = "/run/covalent/telemetry.sock";

/// How often a command that waits looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a connection, and an answer, may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval of liveness checks of the server.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Longest sample: a node with tens of thousands of pipes.
const SAMPLE_BYTES_MAX: usize = 256 << 20;

/// The address of telemetry, as text and as the library needs it.
pub struct Place {
    name: String,
    uri: String,
}

/// A connection.
pub struct Server {
    runtime: Runtime,
    telemetry: TelemetryClient<Channel>,
    name: String,
}

/// Returns the given address, else that of the configuration, else the default of a node.
///
/// # Errors
/// Fails if the configuration cannot be read.
pub fn place(args: &WatchArgs) -> Result<Place> {
    if let Some(address) = args.at {
        return Ok(Place {
            name: address.to_string(),
            uri: format!("http://{address}"),
        });
    }
    let path = match (&args.socket, args.config.named_or_installed()) {
        (Some(socket), _) => std::path::absolute(socket)?,
        (None, Some(file)) => Config::load(file)?.telemetry_socket_path(),
        (None, None) => PathBuf::from(DEFAULT_SOCKET),
    };
    let name = path.display().to_string();
    Ok(Place {
        uri: format!("unix://{name}"),
        name,
    })
}

impl Server {
    /// Connects.
    ///
    /// # Errors
    /// Fails if there is no telemetry server.
    pub fn connect(place: &Place) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let endpoint = Endpoint::try_from(place.uri.clone())?
            .connect_timeout(PATIENCE)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(PATIENCE);
        let channel = runtime.block_on(endpoint.connect()).map_err(|error| {
            let causes: Vec<_> = anyhow!(error).chain().map(ToString::to_string).collect();
            anyhow!(
                "no telemetry server at {} ({})\n  \
                 cure: `covalent up --config FILE` starts covalent-control, which has one; \
                 `--socket PATH` names another socket, and `--at ADDRESS:PORT` the address of \
                 `control.grpc_listen`",
                place.name,
                causes.join(": ")
            )
        })?;
        let telemetry = TelemetryClient::new(channel).max_decoding_message_size(SAMPLE_BYTES_MAX);
        Ok(Self {
            runtime,
            telemetry,
            name: place.name.clone(),
        })
    }

    /// A stream of samples.
    ///
    /// # Errors
    /// When the server refuses, with its reason.
    pub fn watch(&self, request: WatchRequest) -> Result<Streaming<Sample>> {
        self.opened(self.telemetry.clone().watch(request))
    }

    /// A stream of events.
    ///
    /// # Errors
    /// When the server refuses, with its reason.
    pub fn events(&self, request: EventsRequest) -> Result<Streaming<Event>> {
        self.opened(self.telemetry.clone().events(request))
    }

    fn opened<T>(
        &self,
        answer: impl Future<Output = Result<Response<Streaming<T>>, Status>>,
    ) -> Result<Streaming<T>> {
        let within = async { timeout(PATIENCE, answer).await };
        match self.runtime.block_on(within) {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => bail!("covalent-control refuses: {}", status.message()),
            Err(_) => bail!("covalent-control did not answer within {PATIENCE:?}"),
        }
    }

    /// The next message of a stream.
    ///
    /// # Errors
    /// When the stream ends, and [`Interrupted`](crate::interrupt::Interrupted) when this command
    /// is to.
    pub fn next<T>(&self, stream: &mut Streaming<T>, interrupt: &Interrupt) -> Result<T> {
        loop {
            interrupt.sleep(Duration::ZERO)?;
            let within = async { timeout(POLL_INTERVAL, stream.message()).await };
            match self.runtime.block_on(within) {
                Err(_) => {}
                Ok(Ok(Some(message))) => return Ok(message),
                Ok(Ok(None)) => bail!("covalent-control at {} has ended the stream", self.name),
                Ok(Err(status)) => bail!(
                    "lost the connection to covalent-control at {} ({})",
                    self.name,
                    status.message()
                ),
            }
        }
    }
}
