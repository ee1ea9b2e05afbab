//! Where a server listens, and whether others can find it there.
//!
//! TensorFlow listens on all interfaces, whatever host the cluster names. A task that the cluster knows as `localhost` can only be
//! meant for this machine, and everything a graph may do (see `--allow-files`) would be open to the network for nothing; so it
//! listens on the loopback interface.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tensorfleet_core::{Result, ensure, excerpt};
use tensorfleet_rpc::is_of_this_machine;

use crate::address;
use crate::cluster_spec::TaskId;

/// How long the own name may take to be resolved; only a warning depends on it.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Where to listen: as `bind` says (`host:port` or `host`), else where the host that the cluster has for the task demands.
pub(crate) fn bind_address(bind: Option<&str>, host: &str, port: u16) -> Result<String> {
    match bind {
        None => {
            let ip = loopback(host).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            Ok(SocketAddr::new(ip, port).to_string())
        }
        Some(bind) => match address::split(bind) {
            Ok(_) => Ok(address::without_blanks(bind)),
            Err(_) => {
                ensure!(!bind.is_empty(), InvalidArgument, "the address to listen on is empty");
                let is_address = bind.parse::<IpAddr>().is_ok() || bind.starts_with('[');
                ensure!(
                    is_address || !bind.contains(':'),
                    InvalidArgument,
                    "'{}' is no address to listen on: it is HOST or HOST:PORT",
                    excerpt(bind)
                );
                Ok(format!("{bind}:{port}"))
            }
        },
    }
}

/// The loopback address that a host is by its name. A name that merely resolves to one is not: Debian has the machine's own name
/// at 127.0.1.1, and others reach it by that name.
fn loopback(host: &str) -> Option<IpAddr> {
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback().then_some(ip),
        Err(_) => host.eq_ignore_ascii_case("localhost").then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    }
}

/// The host by which a client on this machine reaches who listens at `address`.
pub(crate) fn host_for_clients(address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST => "localhost".to_string(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// Warns if the host that the cluster has for `task` is not this machine: the others will look for it elsewhere. It may be right
/// all the same, where an address is translated on the way.
pub(crate) async fn warn_of_foreign_address(task: &TaskId, host: &str) {
    // An address with a zone is of an interface of this machine, or of none.
    if host.contains('%') || loopback(host).is_some() {
        return;
    }
    let found = tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((host, 0))).await;
    match found {
        Ok(Ok(addresses)) => {
            let addresses: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
            if let Some(first) =
                addresses.first().filter(|_| !addresses.iter().any(|&ip| is_of_this_machine(ip)))
            {
                let resolved =
                    if host.parse::<IpAddr>().is_ok() { String::new() } else { format!(" ({first})") };
                tracing::warn!(
                    "the cluster has {task} at {host}{resolved}, which is no address of this machine: the other tasks look for it \
                     there; check --task_index, or ignore this if that address leads here"
                );
            }
        }
        Ok(Err(_)) | Err(_) => tracing::warn!(
            "the cluster has {task} at {host}, a name that this machine cannot resolve: check that the other tasks can"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_are_listened_for_on_loopback_and_others_everywhere() {
        for (host, expected) in [
            ("localhost", "127.0.0.1:5"),
            ("LocalHost", "127.0.0.1:5"),
            ("127.0.0.1", "127.0.0.1:5"),
            ("127.0.0.3", "127.0.0.3:5"),
            ("::1", "[::1]:5"),
            ("ps0", "0.0.0.0:5"),
            ("10.0.0.1", "0.0.0.0:5"),
            ("localhost.example.com", "0.0.0.0:5"),
        ] {
            assert_eq!(bind_address(None, host, 5).unwrap(), expected, "{host}");
            assert_eq!(bind_address(Some("0.0.0.0"), host, 5).unwrap(), "0.0.0.0:5");
            assert_eq!(bind_address(Some("10.0.0.2:7"), host, 5).unwrap(), "10.0.0.2:7");
        }
        assert!(bind_address(Some(""), "localhost", 5).is_err());
    }

    #[test]
    fn clients_of_this_machine_are_told_a_host_that_leads_to_the_listener() {
        for (listening, expected) in [
            ("0.0.0.0:1", "localhost"),
            ("127.0.0.1:1", "localhost"),
            ("127.0.0.2:1", "127.0.0.2"),
            ("[::1]:1", "[::1]"),
        ] {
            assert_eq!(host_for_clients(listening.parse().unwrap()), expected);
        }
    }
}
