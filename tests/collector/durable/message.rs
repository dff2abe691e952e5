//! HTTP messages, as what is between a client and a server passes them on.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

/// Reads a message with its head.
pub(crate) fn read(from: &mut impl BufRead) -> io::Result<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        if from.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = head[start..].to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().map_err(io::Error::other)?;
        }
        if line == "\r\n" {
            let mut body = vec![0; length];
            from.read_exact(&mut body)?;
            return Ok((head, body));
        }
    }
}

/// Forwards a request, and returns the response.
pub(crate) fn forward(to: SocketAddr, head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(to)?;
    server.write_all(&[head.as_bytes(), body].concat())?;
    let (head, body) = read(&mut BufReader::new(server))?;
    Ok([head.as_bytes(), &body].concat())
}

/// A response, with a protobuf if it is a success.
pub(crate) fn response(status: u16, body: &[u8]) -> Vec<u8> {
    let kind = if status == 200 { "application/x-protobuf" } else { "text/plain" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Some\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}
