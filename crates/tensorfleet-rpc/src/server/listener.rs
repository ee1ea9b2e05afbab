//! [`Listener`]: a bound port, the shorter way to it on the same machine, and a helpful error where there is none.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixListener;

use tensorfleet_core::{Code, Result, Status};

use crate::transport::network::{Arrivals, Network};
use crate::transport::{port_owner, same_machine};

/// What accepts connections once it is served.
#[derive(Debug)]
pub struct Listener {
    pub(super) source: Source,
    address: SocketAddr,
}

/// Where connections come from.
#[derive(Debug)]
pub(super) enum Source {
    Sockets(std::net::TcpListener, Option<UnixListener>),
    Network(Arrivals),
}

impl Listener {
    /// Listens on `address`, e.g. `0.0.0.0:2222`; port 0 means any free one. Connections are queued from now on.
    pub fn bind(address: &str) -> Result<Listener> {
        bind(address).map_err(|error| explain(address, &error))
    }

    /// Listens on a port of `network`.
    pub fn on(network: &dyn Network, port: u16) -> Result<Listener> {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let arrivals = network.listen(port).map_err(|error| explain(&address.to_string(), &error))?;
        Ok(Listener { source: Source::Network(arrivals), address })
    }

    /// The address with the actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn bind(address: &str) -> io::Result<Listener> {
    // The standard library sets SO_REUSEADDR, so a restarted server gets its port back at once.
    let inner = std::net::TcpListener::bind(address)?;
    inner.set_nonblocking(true)?;
    let address = inner.local_addr()?;
    Ok(Listener { source: Source::Sockets(inner, same_machine::listen(address)), address })
}

fn explain(address: &str, error: &io::Error) -> Status {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    match (error.kind(), port) {
        (io::ErrorKind::AddrInUse, Some(port)) => {
            let owner = match port_owner::find(port) {
                Some((pid, name)) => format!("process {pid} ({name}) has it"),
                None => "another process has it".to_string(),
            };
            Status::new(
                Code::Unavailable,
                format!("port {port} is in use: {owner}; stop it or give this task another port"),
            )
        }
        (io::ErrorKind::PermissionDenied, Some(port)) => Status::new(
            Code::PermissionDenied,
            format!("this user may not listen on port {port}: use a port above 1023"),
        ),
        (io::ErrorKind::AddrNotAvailable, _) => Status::invalid_argument(format!(
            "cannot listen on {address}: this machine does not have that address"
        )),
        _ => Status::invalid_argument(format!("cannot listen on {address}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named_with_the_process_that_has_it() {
        let first = Listener::bind("127.0.0.1:0").unwrap();
        let status = Listener::bind(&first.address().to_string()).unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.text().contains(&format!("port {}", first.address().port())), "{status}");
        if cfg!(target_os = "linux") {
            assert!(status.text().contains(&format!("process {}", std::process::id())), "{status}");
        }
        assert!(!status.text().contains('\n'));
    }

    #[test]
    fn nonsense_addresses_are_errors() {
        for address in ["nonsense", "127.0.0.1:99999", "192.0.2.1:0"] {
            assert!(Listener::bind(address).is_err(), "{address}");
        }
    }
}
