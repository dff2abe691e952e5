//! Unix sockets that only their owner can connect to, from the first moment on.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1_024;

/// Listens at a path, which must not exist.
///
/// # Errors
/// Returns an error if the socket cannot be created there.
pub fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let socket = bind_privately(path)?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// The file gets its mode from the socket as it is created: others can connect at no moment.
fn bind_privately(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn socket_is_closed_to_others_as_soon_as_it_exists() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _bound = bind_privately(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{mode:o}");
        listen_privately(&path).unwrap_err();
        let other = dir.path().join("other");
        let listener = listen_privately(&other).unwrap();
        UnixStream::connect(&other).unwrap().write_all(b"a").unwrap();
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a");
    }
}
