//! [`Members`]: which of those who call are members of the cluster, for which a server keeps some room.
//!
//! A task of ours introduces itself with the first call of each connection. A TensorFlow server says nothing of itself,
//! but comes from a machine that the cluster names. Loopback addresses do not count: behind them are all programs of this
//! machine. Nobody proves anything: this is about room, not about rights.

use std::net::IpAddr;

use parking_lot::RwLock;
use rustc_hash::FxHashSet;
use tensorfleet_rpc::{HeaderMap, Network, Peer};

use crate::address;
use crate::cluster_spec::ClusterSpec;
use crate::wire::headers;

/// Machines whose names are looked up at most; a cluster of more is known by introductions alone.
const MAX_HOSTS: usize = 1_000;

/// The members of a cluster, as far as they can be told.
pub(crate) struct Members {
    fingerprint: String,
    machines: RwLock<FxHashSet<IpAddr>>,
}

impl Members {
    /// Those of `cluster`.
    pub(crate) fn new(cluster: &ClusterSpec) -> Members {
        Members { fingerprint: fingerprint(cluster), machines: RwLock::default() }
    }

    /// Finds out which addresses the machines of the cluster have. Names that do not resolve now are left out.
    pub(crate) async fn look_up(&self, cluster: &ClusterSpec, network: Option<&dyn Network>) {
        let hosts: FxHashSet<&str> = cluster
            .tasks()
            .filter_map(|(_, _, address)| address::split(address).ok())
            .map(|(host, _)| host)
            .take(MAX_HOSTS)
            .collect();
        for host in hosts {
            let found = match (host.parse::<IpAddr>(), network) {
                (Ok(address), _) => Ok(vec![address]),
                (Err(_), Some(network)) => network.resolve(host).await,
                (Err(_), None) => {
                    let found = tokio::net::lookup_host((host, 0)).await;
                    found.map(|found| found.map(|address| address.ip()).collect())
                }
            };
            let Ok(found) = found else { continue };
            let found = found.into_iter().map(|address| address.to_canonical());
            self.machines.write().extend(found.filter(|address| !address.is_loopback()));
        }
    }

    /// Whether a call comes from a member.
    pub(crate) fn is_member(&self, peer: Peer, metadata: &HeaderMap) -> bool {
        let is_introduced = metadata.contains_key(headers::TASK)
            && metadata
                .get(headers::CLUSTER)
                .is_some_and(|value| value.as_bytes() == self.fingerprint.as_bytes());
        match peer {
            _ if is_introduced => true,
            Peer::Address(address) => self.machines.read().contains(&address.ip().to_canonical()),
            Peer::Process(_) => false,
        }
    }
}

/// What a task of `cluster` says of itself with the first call of a connection.
pub(crate) fn introduction(task: &str, cluster: &ClusterSpec) -> [(String, String); 2] {
    [(headers::TASK.to_string(), task.to_string()), (headers::CLUSTER.to_string(), fingerprint(cluster))]
}

fn fingerprint(cluster: &ClusterSpec) -> String {
    format!("{:016x}", cluster.fingerprint())
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use tensorfleet_rpc::{Arrivals, ByteStream};

    use super::*;

    /// A network whose hosts have addresses that no resolver of this machine knows.
    #[derive(Debug)]
    struct Elsewhere;

    impl Network for Elsewhere {
        fn connect(&self, _: &str) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
            std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())).boxed()
        }

        fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let found = if host == "ps0" {
                Ok(vec![[10, 0, 0, 9].into()])
            } else {
                Err(io::ErrorKind::NotFound.into())
            };
            std::future::ready(found).boxed()
        }

        fn listen(&self, _: u16) -> io::Result<Arrivals> {
            Err(io::ErrorKind::AddrInUse.into())
        }
    }

    #[test]
    fn names_are_those_of_the_servers_network() {
        let cluster = ClusterSpec::from_hosts("ps0:2222", "localhost:2222").unwrap();
        let members = Members::new(&cluster);
        // Without a runtime: nothing but the network is asked.
        members.look_up(&cluster, Some(&Elsewhere)).now_or_never().unwrap();
        assert_eq!(
            members.machines.read().iter().copied().collect::<Vec<IpAddr>>(),
            [IpAddr::from([10, 0, 0, 9])]
        );
    }

    #[tokio::test]
    async fn members_are_known_by_their_introduction_or_by_their_machine() {
        let cluster = ClusterSpec::from_hosts("10.0.0.7:2222,localhost:2223", "[2001:db8::1]:2222").unwrap();
        let members = Members::new(&cluster);
        members.look_up(&cluster, None).await;
        let by_address =
            |text: &str| members.is_member(Peer::Address(text.parse().unwrap()), &HeaderMap::new());
        assert!(
            by_address("10.0.0.7:40000")
                && by_address("[::ffff:10.0.0.7]:1")
                && by_address("[2001:db8::1]:9")
        );
        assert!(!by_address("10.0.0.8:40000") && !by_address("127.0.0.1:40000"));
        let by_header = |cluster: &ClusterSpec| {
            let mut headers = HeaderMap::new();
            for (name, value) in introduction("/job:ps/replica:0/task:0", cluster) {
                headers.insert(http_name(&name), value.parse().unwrap());
            }
            members.is_member(Peer::Process(None), &headers)
        };
        assert!(by_header(&cluster));
        assert!(!by_header(&ClusterSpec::from_hosts("elsewhere:1", "").unwrap()), "of another cluster");
        assert!(!members.is_member(Peer::Process(Some(7)), &HeaderMap::new()));
    }

    fn http_name(name: &str) -> &'static str {
        [headers::TASK, headers::CLUSTER].into_iter().find(|known| *known == name).unwrap()
    }
}
