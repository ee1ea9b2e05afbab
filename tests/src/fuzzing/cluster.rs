//! Descriptions of clusters, as text and as messages.

use tensorfleet_cluster::{ClusterSpec, TfConfig, address};
use tensorfleet_core::Result;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::ClusterDef;

/// The first byte says what the rest is: JSON, TOML, `TF_CONFIG`, two lists of hosts, a message, or an address.
pub fn cluster_spec(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    if kind % 6 == 4 {
        let Ok(def) = ClusterDef::decode(rest) else { return };
        return check(ClusterSpec::from_cluster_def(&def));
    }
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match kind % 6 {
        0 => check(ClusterSpec::from_json(text)),
        1 => check(ClusterSpec::from_toml(text)),
        2 => check(TfConfig::parse(text).map(|config| config.cluster)),
        3 => {
            let (ps, workers) = text.split_once('\n').unwrap_or((text, ""));
            check(ClusterSpec::from_hosts(ps, workers));
        }
        _ => {
            if let Ok((host, port)) = address::split(text) {
                assert!(text.contains(host) && text.contains(&port.to_string()), "{text}: {host} and {port}");
            }
            let _ = address::from_target(text);
        }
    }
}

/// What was read can be written in both ways and is the same afterwards.
fn check(spec: Result<ClusterSpec>) {
    let Ok(spec) = spec else { return };
    assert_eq!(ClusterSpec::from_json(&spec.as_json()).unwrap(), spec);
    assert_eq!(ClusterSpec::from_cluster_def(&spec.as_cluster_def()).unwrap(), spec);
    assert_eq!(spec.differences(&spec), None);
    for (job, index, address) in spec.tasks() {
        assert_eq!(spec.address(job, index).unwrap(), address);
        address::split(address).unwrap();
    }
}
