//! A shorter way between tasks of one machine.
//!
//! Most clusters begin on one machine, and many keep a parameter server and a worker on each. Between processes of one
//! machine a Unix socket moves a tensor in a third of the time that TCP needs. So a server listens on one besides its
//! port, under a name made of its address, and a channel to an address of this machine looks for that name first.
//!
//! The names are those that Linux keeps in memory: they belong to a network namespace just as the ports do, and vanish
//! with the process. Anybody may take such a name, so a channel trusts only a process of its own user. Other systems
//! have no such names, and their tasks use TCP alone.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};

use socket2::{Domain, SockAddr, Socket, Type};

/// Listens for processes of this machine that look for `address`. Without it they use TCP.
pub(crate) fn listen(address: SocketAddr) -> Option<UnixListener> {
    const BACKLOG: i32 = 128;
    let socket = socket().ok()?;
    socket.bind(&name(address)?).ok()?;
    socket.listen(BACKLOG).ok()?;
    Some(socket.into())
}

/// Connects to the process of this machine and user that listens at `address`, if there is one.
pub(crate) fn dial(address: SocketAddr) -> Option<UnixStream> {
    if !is_of_this_machine(address.ip()) {
        return None;
    }
    // Whoever listens at all addresses listens at this one.
    let everywhere: &[IpAddr] = match address.ip() {
        IpAddr::V4(_) => &[IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
        IpAddr::V6(_) => &[IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
    };
    let mut hosts = std::iter::once(address.ip()).chain(everywhere.iter().copied());
    hosts.find_map(|host| connect(SocketAddr::new(host, address.port())))
}

fn connect(address: SocketAddr) -> Option<UnixStream> {
    let socket = socket().ok()?;
    socket.connect(&name(address)?).ok()?;
    let owner = rustix::net::sockopt::socket_peercred(&socket).ok()?.uid;
    (owner == rustix::process::geteuid()).then(|| socket.into())
}

fn socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Before it connects: a queue that is full is then an error instead of a wait.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The name of the server at an address; a name that begins with a zero is none of the file system.
fn name(address: SocketAddr) -> Option<SockAddr> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    SockAddr::unix(format!("\0tensorfleet/{address}")).ok()
}

/// Whether an address is of this machine: only such a one can be bound to.
pub fn is_of_this_machine(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// An address nobody else has while the listener lives.
    fn free_port() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    #[test]
    fn a_server_at_an_address_or_at_all_of_them_is_found() {
        let (_port, port) = free_port();
        for host in ["127.0.0.1", "0.0.0.0", "[::]"] {
            let listener = listen(format!("{host}:{port}").parse().unwrap()).unwrap();
            let mut client = dial(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(b"hello").unwrap();
            let mut heard = [0; 5];
            server.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"hello");
        }
    }

    #[test]
    fn other_addresses_and_other_machines_are_not() {
        let (_port, port) = free_port();
        let listener = listen(SocketAddr::from(([127, 0, 0, 2], port))).unwrap();
        assert!(dial(SocketAddr::from(([127, 0, 0, 1], port))).is_none());
        assert!(dial(SocketAddr::from(([192, 0, 2, 1], port))).is_none());
        drop(listener);
        assert!(dial(SocketAddr::from(([127, 0, 0, 2], port))).is_none());
    }

    #[test]
    fn a_server_that_accepts_nobody_blocks_nobody() {
        let (_port, port) = free_port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let _listener = listen(address).unwrap();
        let connected: Vec<UnixStream> = std::iter::from_fn(|| dial(address)).take(1000).collect();
        assert!((1..1000).contains(&connected.len()), "{}", connected.len());
    }
}
