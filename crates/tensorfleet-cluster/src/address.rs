//! Addresses of tasks, `host:port`, and session targets, `grpc://host:port`.
//!
//! Addresses are checked where they enter, because a wrong one otherwise shows itself as a wait without end. They stay
//! the text the user wrote: what is printed, compared and dialled is the same. Only blanks go: TensorFlow takes
//! `localhost: 2222`, which is easily written, and so do we, before and after each part.

use std::net::Ipv6Addr;

use tensorfleet_core::{Result, Status, excerpt};

/// The longest name DNS can carry.
const MAX_HOST_BYTES: usize = 253;
/// The scheme of session targets.
const SCHEME: &str = "grpc://";

/// Splits `host:port`. The host of an IPv6 address, which must stand in brackets, comes without them.
pub fn split(address: &str) -> Result<(&str, u16)> {
    parts(address).map_err(|why| {
        let shown = excerpt(address);
        Status::invalid_argument(format!("malformed address '{shown}': {why}; expected HOST:PORT"))
    })
}

/// Host and port, or what is wrong.
fn parts(address: &str) -> Result<(&str, u16), String> {
    if let Some((scheme, _)) = address.split_once("://") {
        return Err(format!("it begins with a scheme, '{scheme}://'"));
    }
    let address = address.trim();
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let Some((host, after)) = rest.split_once(']') else {
                return Err("the bracket is not closed".into());
            };
            let plain = host.split_once('%').map_or(host, |(plain, _zone)| plain);
            if plain.parse::<Ipv6Addr>().is_err() {
                return Err(format!("'{host}' is not an IPv6 address"));
            }
            (host, after.trim_start().strip_prefix(':').ok_or("it has no port")?)
        }
        None => {
            let (host, port) = address.rsplit_once(':').ok_or("it has no port")?;
            let host = host.trim_end();
            if address.contains(char::is_whitespace) && host.contains(':') {
                return Err("addresses are separated by commas, not by blanks".into());
            }
            if host.contains(':') {
                return Err("an IPv6 address must stand in brackets, like [::1]:2222".into());
            }
            check_host(host)?;
            (host, port)
        }
    };
    let port = port.trim_start();
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("its port '{port}' is not a number"));
    }
    let port = port.parse().map_err(|_| format!("its port {port} is larger than 65535"))?;
    Ok((host, port))
}

fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("it has no host".into());
    }
    if host.len() > MAX_HOST_BYTES {
        return Err(format!("its host has more than {MAX_HOST_BYTES} bytes"));
    }
    // What the wire calls an authority is ASCII; names in other scripts have such a form (`xn--…`), too.
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match host.chars().find(|c| !fits(c)) {
        Some(odd) => Err(format!("its host has the character {odd:?}")),
        None => Ok(()),
    }
}

/// The address without blanks.
pub(crate) fn without_blanks(address: &str) -> String {
    address.chars().filter(|c| !c.is_whitespace()).collect()
}

/// A form in which two spellings of one address are equal.
pub(crate) fn normalised(host: &str, port: u16) -> (String, u16) {
    (host.to_lowercase(), port)
}

/// The address in a session target: `grpc://host:port`, or `host:port` alone.
///
/// ```
/// use tensorfleet_cluster::address::from_target;
/// assert_eq!(from_target("grpc://localhost:2222")?, "localhost:2222");
/// assert!(from_target("http://localhost:2222").is_err());
/// # Ok::<(), tensorfleet_core::Status>(())
/// ```
pub fn from_target(target: &str) -> Result<String> {
    let wrong = |why: String| {
        let shown = excerpt(target);
        Status::invalid_argument(format!(
            "cannot connect to '{shown}': {why}; expected HOST:PORT or grpc://HOST:PORT"
        ))
    };
    let text = target.trim();
    let address = match text.split_once("://") {
        _ if text.starts_with(SCHEME) => &text[SCHEME.len()..],
        Some((scheme, _)) => return Err(wrong(format!("there is no way to speak '{scheme}://'"))),
        None => text,
    };
    let address = address.strip_suffix('/').unwrap_or(address);
    let (_, port) = parts(address).map_err(wrong)?;
    if port == 0 {
        return Err(wrong("nobody can be reached at port 0".into()));
    }
    Ok(without_blanks(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_both_kinds_are_addresses() {
        assert_eq!(split("localhost:2222").unwrap(), ("localhost", 2222));
        assert_eq!(split("10.0.0.1:1").unwrap(), ("10.0.0.1", 1));
        assert_eq!(split("trainer_ps-0.svc.cluster.local:65535").unwrap().1, 65535);
        assert_eq!(split("[::1]:2222").unwrap(), ("::1", 2222));
        assert_eq!(split("[fe80::1%eth0]:2222").unwrap(), ("fe80::1%eth0", 2222));
        assert_eq!(split("host:0").unwrap(), ("host", 0));
    }

    #[test]
    fn a_malformed_address_is_named_with_what_is_wrong() {
        for (address, complaint) in [
            ("host", "has no port"),
            ("host:", "port '' is not a number"),
            (":2222", "has no host"),
            ("host:65536", "larger than 65535"),
            ("host:+1", "is not a number"),
            ("host:http", "is not a number"),
            ("::1:2222", "must stand in brackets"),
            ("a:1 b:2", "separated by commas"),
            ("[::1:2222", "bracket is not closed"),
            ("[::1]", "has no port"),
            ("[localhost]:1", "is not an IPv6 address"),
            ("grpc://host:1", "begins with a scheme"),
            ("ho st:1", "character ' '"),
            ("host:1 2", "is not a number"),
            ("[:: 1]:1", "is not an IPv6 address"),
            ("höst:1", "character 'ö'"),
            ("", "has no port"),
        ] {
            let status = split(address).unwrap_err();
            assert!(status.text().contains(complaint), "{address}: {status}");
            assert!(status.text().contains(&format!("'{address}'")), "{address}: {status}");
        }
        assert!(split(&format!("{}:1", "a".repeat(300))).unwrap_err().text().contains("253 bytes"));
    }

    /// TensorFlow 1.15.5 and 2.21 take a blank before the port, in clusters and in targets.
    #[test]
    fn blanks_around_host_and_port_are_no_part_of_an_address() {
        for text in ["localhost: 2222", "localhost:\t2222", " localhost:2222 ", "localhost : 2222"] {
            assert_eq!(split(text).unwrap(), ("localhost", 2222), "{text}");
            assert_eq!(without_blanks(text), "localhost:2222");
            assert_eq!(from_target(&format!("grpc://{text}")).unwrap(), "localhost:2222");
        }
        assert_eq!(split("[::1]: 2222").unwrap(), ("::1", 2222));
        assert_eq!(from_target(" grpc://[::1]: 2222/").unwrap(), "[::1]:2222");
    }

    #[test]
    fn a_target_may_leave_out_its_scheme_but_not_have_another() {
        assert_eq!(from_target("grpc://[::1]:2222").unwrap(), "[::1]:2222");
        assert_eq!(from_target("host:2222").unwrap(), "host:2222");
        assert_eq!(from_target("grpc://host:2222/").unwrap(), "host:2222");
        for target in ["http://host:1", "local", "grpc://host", "grpc+verbs://host:1", "grpc://host:0", "é"]
        {
            let status = from_target(target).unwrap_err();
            assert!(status.text().ends_with("; expected HOST:PORT or grpc://HOST:PORT"), "{status}");
            assert_eq!(status.text().matches("expected").count(), 1, "{status}");
        }
    }
}
