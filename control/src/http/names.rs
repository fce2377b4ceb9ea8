//! The names under which this node answers over TCP.
//!
//! A foreign web page can make its own name resolve to a loopback address. Its scripts can then
//! read the pages served there (DNS rebinding). The browser still sends that page's name. Control
//! therefore answers only under names that are known to mean this node.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, PoisonError, RwLock},
};

use axum::http::{Request, header::HOST, uri::Authority};
use tokio::net::TcpStream;

/// Names under which requests are answered, in addition to those of loopback. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<RwLock<Vec<String>>>);

impl Names {
    /// Those that are configured.
    #[must_use]
    pub fn new(configured: Vec<String>) -> Self {
        Self(Arc::new(RwLock::new(configured)))
    }

    /// Has other ones configured from now on.
    pub fn set(&self, configured: Vec<String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = configured;
    }

    /// Whether `host`, without a port, means this node to a client that reached `local`. An address
    /// cannot be rebound, so the address that was reached is valid.
    fn contain(&self, host: &str, local: Option<IpAddr>) -> bool {
        let host = host.trim_end_matches('.');
        let literal = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let address = match literal {
            Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::from),
            None => host.parse().ok(),
        };
        if let Some(address) = address {
            let address = address.to_canonical();
            if address.is_loopback() || Some(address) == local {
                return true;
            }
        }
        let configured = self.0.read().unwrap_or_else(PoisonError::into_inner);
        host.eq_ignore_ascii_case("localhost")
            || configured.iter().any(|name| {
                let name = name.trim_end_matches('.');
                name.eq_ignore_ascii_case(host)
                    || literal.is_some_and(|inner| name.eq_ignore_ascii_case(inner))
            })
    }
}

/// Local address of a connection, and the valid names.
#[derive(Debug, Clone)]
pub struct Arrival {
    names: Names,
    local: Option<IpAddr>,
}

impl Arrival {
    /// Of a connection that is answered under `names`.
    #[must_use]
    pub fn of(stream: &TcpStream, names: Names) -> Self {
        let local = stream.local_addr().ok();
        Self {
            names,
            local: local.map(|address| address.ip().to_canonical()),
        }
    }

    /// Checks whether a request is addressed to this node.
    ///
    /// # Errors
    /// The message to the client.
    pub fn check<T>(&self, request: &Request<T>) -> Result<(), String> {
        let headers = request.headers().get_all(HOST).iter();
        let requested = headers.map(|value| value.to_str().unwrap_or("�").to_owned());
        let requested = requested.chain(request.uri().authority().map(ToString::to_string));
        // HTTP/1.0 needs no name. A browser always sends one.
        for name in requested {
            let host = name.parse::<Authority>();
            let is_meant = host.is_ok_and(|host| self.names.contain(host.host(), self.local));
            if !is_meant {
                return Err(format!(
                    "{name:?} is not a name of this node; use localhost or an address of it, or \
                     add the name to `control.metrics_hosts`\n"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(hosts: &[&str], uri: &str) -> bool {
        let arrival = Arrival {
            names: Names::new(vec!["node-a.example".into(), "2001:db8::5".into()]),
            local: Some(IpAddr::from([192, 0, 2, 7])),
        };
        let mut request = Request::builder().uri(uri);
        for host in hosts {
            let host = HeaderValue::from_bytes(host.as_bytes()).expect("a value");
            request = request.header(HOST, host);
        }
        arrival.check(&request.body(()).expect("a request")).is_ok()
    }

    #[test]
    fn loopback_the_reached_address_and_configured_names_are_meant() {
        for host in [
            "localhost",
            "LOCALHOST:9464",
            "localhost.",
            "127.0.0.1",
            "127.9.9.9:80",
            "[::1]:9464",
            "[::ffff:127.0.0.1]",
            "192.0.2.7:9464",
            "Node-A.example:9464",
            "node-a.example.",
            "[2001:db8::5]:9464",
        ] {
            assert!(check(&[host], "/metrics"), "{host}");
        }
        assert!(check(&[], "/metrics"), "HTTP/1.0");
        assert!(check(&["localhost"], "http://localhost:9464/metrics"));
    }

    #[test]
    fn every_other_host_name_is_refused_in_any_position() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.8:9464",
            "0.0.0.0:9464",
            "[2001:db8::6]",
            "evil.example@localhost.evil.example",
            "n\u{f6}de",
            "",
        ] {
            assert!(!check(&[host], "/metrics"), "{host:?}");
        }
        assert!(!check(&["localhost", "evil.example"], "/metrics"));
        assert!(!check(&["localhost"], "http://evil.example/metrics"));
    }
}
