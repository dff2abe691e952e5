//! HTTP/1.1 by hand, for requests that no client sends.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(crate) const PROTOBUF: &str = "content-type: application/x-protobuf";
pub(crate) const JSON: &str = "content-type: application/json";

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").expect("a complete head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: bytes[end + 4..].to_vec() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.to_owned())
    }

    /// Head and body, for messages.
    pub(crate) fn text(&self) -> String {
        format!("{}\n{}", self.head, String::from_utf8_lossy(&self.body))
    }
}

pub(crate) fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends a request and returns the response. The server may reply and close before all is sent.
pub(crate) fn post(address: &str, path: &str, headers: &[&str], body: &[u8]) -> Reply {
    let mut request = format!("POST {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
    for header in headers {
        request += &format!("{header}\r\n");
    }
    request += &format!("content-length: {}\r\n\r\n", body.len());
    exchange(address, &[request.as_bytes(), body].concat())
}

/// Sends bytes and returns the response.
pub(crate) fn exchange(address: &str, request: &[u8]) -> Reply {
    let mut stream = connect(address);
    let sent = stream.write_all(request);
    let mut reply = Vec::new();
    match (sent, stream.read_to_end(&mut reply)) {
        (_, Ok(_)) => {}
        // The rest of a request that is too large is not read.
        (_, Err(error)) if error.kind() == ErrorKind::ConnectionReset => {}
        (sent, Err(error)) => panic!("{sent:?} {error}"),
    }
    Reply::parse(&reply)
}

/// Waits until the server closes the connection.
pub(crate) fn drain_until_closed(stream: &mut TcpStream, deadline: Duration) {
    stream.set_read_timeout(Some(deadline)).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "not closed"),
    }
}

/// Sends a byte per `pause` until the server closes the connection; returns what it sent.
pub(crate) fn drip_until_closed(
    stream: &mut TcpStream,
    pause: Duration,
    deadline: Duration,
) -> String {
    let started = Instant::now();
    let mut reply = Vec::new();
    stream.set_read_timeout(Some(pause)).unwrap();
    loop {
        assert!(started.elapsed() < deadline, "the connection was not closed");
        let mut bytes = [0; 1_024];
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => reply.extend(&bytes[..read]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if stream.write_all(b"x").is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&reply).into_owned()
}
