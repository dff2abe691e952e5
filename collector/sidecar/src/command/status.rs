//! `phasemeter status`: what a run in progress costs so far.

use std::io::{self, IsTerminal, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use phasemeter_bill::status::{Summary, render};
use phasemeter_report::text::use_color;
use phasemeter_terminal::json_escape::Escaped;

use super::bill;
use super::error::CommandError;
use super::status_error::StatusError;
use phasemeter_cli::{Format, StatusArgs};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long each read may take: the report of a large fleet takes seconds.
const ANSWER: Duration = Duration::from_secs(60);

/// The most that is read of a report.
const MAX_REPORT: u64 = 1 << 30;

/// The most that is read of the head of a response.
const MAX_HEAD: usize = 64 << 10;

/// Asks once and prints.
pub(super) fn run(args: &StatusArgs) -> Result<(), CommandError> {
    let json = fetch(&args.at.address)?;
    let summary = summary(&args.at.address, &json)?;
    match args.format {
        Format::Json => {
            let mut safe = Vec::with_capacity(json.len());
            Escaped(&mut safe).write_all(&json).map_err(CommandError::Output)?;
            bill::print(&safe)
        }
        Format::Text => print_page(&summary),
    }
}

/// Prints the page about a report.
pub(super) fn print_page(summary: &Summary) -> Result<(), CommandError> {
    let color = use_color(io::stdout().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    bill::print(render(summary, color).as_bytes())
}

/// The report of the run that answers at this address.
pub(super) fn ask(address: &str) -> Result<Summary, StatusError> {
    summary(address, &fetch(address)?)
}

fn summary(address: &str, json: &[u8]) -> Result<Summary, StatusError> {
    Summary::parse(json).map_err(|error| StatusError::Report(address.to_owned(), error))
}

/// The body of `/status`.
fn fetch(address: &str) -> Result<Vec<u8>, StatusError> {
    let invalid = || StatusError::Address(address.to_owned());
    let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(|_| invalid())?.collect();
    let first = found.first().ok_or_else(invalid)?;
    let failed = |source| StatusError::Connect { address: address.to_owned(), source };
    let connect = |address: &SocketAddr| TcpStream::connect_timeout(address, CONNECT);
    let mut stream =
        found.iter().find_map(|it| connect(it).ok()).map_or_else(|| connect(first), Ok);
    let stream = stream.as_mut().map_err(|error| failed(io::Error::from(error.kind())))?;
    let cut = |source| StatusError::Cut { address: address.to_owned(), source };
    let timeouts =
        stream.set_read_timeout(Some(ANSWER)).and(stream.set_write_timeout(Some(ANSWER)));
    timeouts.map_err(cut)?;
    // Without a length or chunks, the end of the connection is that of the answer.
    write!(stream, "GET /status HTTP/1.0\r\nHost: {address}\r\n\r\n").map_err(cut)?;
    let mut answer = Vec::new();
    stream.take(MAX_REPORT).read_to_end(&mut answer).map_err(cut)?;
    let refused = |answer: String| StatusError::Refused { address: address.to_owned(), answer };
    let head = answer.windows(4).take(MAX_HEAD).position(|it| it == b"\r\n\r\n");
    let head = head.ok_or_else(|| refused("no HTTP".to_owned()))?;
    let body = answer.split_off(head + 4);
    let head = String::from_utf8_lossy(&answer);
    let (status, length) = (head.lines().next().unwrap_or_default(), length(&head));
    if status.split(' ').nth(1) != Some("200") {
        let line = String::from_utf8_lossy(&body);
        return Err(refused(line.lines().next().unwrap_or(status).trim().to_owned()));
    }
    if length.is_some_and(|length| length != body.len() as u64) {
        return Err(cut(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(body)
}

/// The length that the head of a response states.
fn length(head: &str) -> Option<u64> {
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = headers.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next()?.1.trim().parse().ok()
}
