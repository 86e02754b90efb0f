//! The wait for a place in the queue of a unix socket.

use std::{io, os::fd::OwnedFd, time::Duration};

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    sockopt::{Timeout, set_socket_timeout},
};

/// Connects to a unix socket. If its queue is full, waits for a place, and blocks the thread for this time at most.
///
/// The kernel wakes who waits whenever the server accepts a connection. So a program that connects without pause cannot take every
/// place, as it can if one only tries again from time to time.
///
/// # Errors
/// The socket cannot be reached. [`io::ErrorKind::WouldBlock`]: there was no place within this time.
pub fn connect_in_turn(address: &SocketAddrUnix, wait: Duration) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(wait))?;
    connect(&socket, address)?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::net::listen;

    use super::*;

    #[test]
    fn who_finds_a_full_queue_gets_the_next_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        listen(&listener, 0).unwrap();
        let address = SocketAddrUnix::new(&path).unwrap();
        let soon = Duration::from_millis(1);
        let mut queued = Vec::new();
        let full = loop {
            match connect_in_turn(&address, soon) {
                Ok(socket) => queued.push(socket),
                Err(err) => break err,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let waiting = std::thread::spawn(move || {
            let address = SocketAddrUnix::new(&path).unwrap();
            connect_in_turn(&address, Duration::from_secs(60))
        });
        // Accepts each connection of the queue, and then that of the thread that waits.
        for _ in 0..=queued.len() {
            listener.accept().unwrap();
        }
        waiting.join().unwrap().unwrap();
    }
}
