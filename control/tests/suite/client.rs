//! Inputs of a test to control: a configuration, an HTTP request, a request on its socket.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
};

use covalent_api::{
    MAX_DATAGRAM_BYTES,
    control::{ControlReply, ControlRequest},
    datagram,
};
use covalent_config::Config;
use covalent_ipc::seqpacket::{Connection, SeqpacketError};

use crate::fake::PATIENCE;

/// A node in `directory` that serves on a port that the system chooses, with more TOML behind.
pub fn config(directory: &Path, more: &str) -> Config {
    let directory = directory.display();
    let text = format!(
        "[node]\nname = \"node-a\"\nruntime_dir = \"{directory}\"\nstate_dir = \"{directory}\"\n\
         [control]\nmetrics_listen = \"127.0.0.1:0\"\n{more}"
    );
    Config::parse(&text, "test.toml").unwrap_or_else(|problem| panic!("{problem}"))
}

/// A port that needs nothing.
pub const PCAP_PORT: &str = "[[port]]\nname = \"p0\"\nkind = \"pcap\"\n";

/// GET `path`: the status code and the body.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    get_as(address, path, "localhost")
}

/// As [`get`], asking for the name `host`.
pub fn get_as(address: SocketAddr, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("control serves");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a whole answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let code = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .expect("a status line");
    (code, body.to_owned())
}

/// One question on control's socket.
pub fn send_request(socket: &Path, request: &ControlRequest) -> ControlReply {
    let connection = Connection::connect(socket).expect("control listens");
    send_request_bytes(&connection, &datagram::encode(request).expect("fits"))
}

/// Sends any bytes as one datagram on an open connection.
pub fn send_request_bytes(connection: &Connection, bytes: &[u8]) -> ControlReply {
    // A client that is refused at once may find its connection already closed, with the reply in
    // it.
    match connection.send(bytes, &[]) {
        Ok(()) | Err(SeqpacketError::Closed) => {}
        Err(problem) => panic!("sent: {problem}"),
    }
    assert!(
        connection.wait(Some(PATIENCE)).expect("a socket"),
        "control does not answer"
    );
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = connection.recv(&mut buffer).expect("an answer");
    datagram::decode(&buffer[..length]).expect("a reply")
}
