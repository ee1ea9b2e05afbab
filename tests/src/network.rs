//! Hosts of a test's own network: network namespaces on one bridge, whose links can be cut and healed; gone when dropped.
//!
//! The bridge is in a namespace too, so that several tests may have such a network at once, with the same addresses.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The first three parts of every address, if nothing leaves the namespaces.
const SUBNET: &str = "10.77.0";
/// The last part of this machine's own address.
const OWN_HOST: u8 = 254;

/// A network of hosts.
pub struct Network {
    bridge: String,
    hosts: Vec<String>,
    subnet: String,
    /// This machine's own link to it.
    own_link: Option<String>,
}

impl Network {
    /// Makes a network of so many hosts; the reason where this user may not.
    pub fn new(hosts: usize) -> Result<Network, String> {
        let network = Network::named(hosts, SUBNET.to_string(), None);
        network.build()?;
        Ok(network)
    }

    /// The same with this machine as one more host, at [`Network::own_address`]; a process may have one of these at a time.
    pub fn with_this_machine(hosts: usize) -> Result<Network, String> {
        let id = std::process::id();
        // Another process's must not have the same addresses.
        let subnet = format!("10.{}.{}", 64 + id / 256 % 64, id % 256);
        let network = Network::named(hosts, subnet, Some(format!("tf{id}")));
        network.build()?;
        Ok(network)
    }

    fn named(hosts: usize, subnet: String, own_link: Option<String>) -> Network {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("tensorfleet-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        Network {
            bridge: format!("{name}-bridge"),
            hosts: (0..hosts).map(|host| format!("{name}-{host}")).collect(),
            subnet,
            own_link,
        }
    }

    fn build(&self) -> Result<(), String> {
        let bridge = &self.bridge;
        ip(&format!("netns add {bridge}"))?;
        ip(&format!("-n {bridge} link add bridge type bridge"))?;
        ip(&format!("-n {bridge} link set bridge up"))?;
        for (host, name) in self.hosts.iter().enumerate() {
            let address = self.address(host);
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {bridge} link add host{host} type veth peer name eth netns {name}"))?;
            ip(&format!("-n {bridge} link set host{host} master bridge up"))?;
            ip(&format!("-n {name} addr add {address}/24 dev eth"))?;
            ip(&format!("-n {name} link set eth up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        if let Some(link) = &self.own_link {
            ip(&format!("link add {link} type veth peer name own netns {bridge}"))?;
            ip(&format!("-n {bridge} link set own master bridge up"))?;
            ip(&format!("addr add {}/24 dev {link}", self.own_address()))?;
            ip(&format!("link set {link} up"))?;
        }
        Ok(())
    }

    /// The address of a host.
    pub fn address(&self, host: usize) -> String {
        format!("{}.{}", self.subnet, host + 1)
    }

    /// The address of this machine, if it is in the network.
    pub fn own_address(&self) -> String {
        format!("{}.{OWN_HOST}", self.subnet)
    }

    /// A command that runs on a host.
    pub fn command(&self, host: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        let name = self.hosts.get(host).map_or("no-such-host", String::as_str);
        command.args(["netns", "exec", name]).arg(program);
        command
    }

    /// Takes the link of a host down: nothing reaches it and it reaches nobody.
    pub fn cut(&self, host: usize) -> Result<(), String> {
        ip(&format!("-n {} link set host{host} down", self.bridge))
    }

    /// Takes the link of a host up again.
    pub fn heal(&self, host: usize) -> Result<(), String> {
        ip(&format!("-n {} link set host{host} up", self.bridge))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // What was not made cannot be deleted, which is no harm.
        if let Some(link) = &self.own_link {
            let _ = ip(&format!("link delete {link}"));
        }
        for name in self.hosts.iter().chain([&self.bridge]) {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("ip {arguments}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
