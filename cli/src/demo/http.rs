//! Fetching a page from the control process.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use ureq::Agent;

use super::patience::stretched;

const PATIENCE: Duration = Duration::from_secs(3);

/// Longest page that is read, in bytes.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Returns the page at `path`, fetched from the calling thread's network namespace.
///
/// # Errors
/// Fails if there is no reply within three seconds, or if it is not a success.
pub fn get(address: SocketAddr, path: &str) -> Result<String> {
    let url = format!("http://{address}{path}");
    // A proxy of the environment is for the world, not for loopback.
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(stretched(PATIENCE)))
        .proxy(None)
        .build()
        .into();
    let mut response = agent
        .get(&url)
        .call()
        .with_context(|| format!("cannot fetch {url}"))?;
    response
        .body_mut()
        .with_config()
        .limit(PAGE_BYTES_MAX)
        .read_to_string()
        .with_context(|| format!("cannot read {url}"))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
    };

    use super::*;

    #[test]
    fn a_page_is_fetched_and_an_error_status_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("known");
        let server = thread::spawn(move || {
            for answer in [
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nup\n",
                "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
            ] {
                let (mut stream, _) = listener.accept().expect("a client");
                let _ = stream.read(&mut [0; 1024]).expect("a request");
                stream.write_all(answer.as_bytes()).expect("answered");
            }
        });
        assert_eq!(get(address, "/metrics").expect("served"), "up\n");
        assert!(get(address, "/metrics").is_err());
        server.join().expect("the server does not panic");
        assert!(
            get(address, "/metrics").is_err(),
            "no server listens any more"
        );
    }
}
