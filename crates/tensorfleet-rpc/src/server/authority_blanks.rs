//! [`AuthorityBlanks`]: clients that were told `localhost: 2222`.
//!
//! TensorFlow takes such a target, and then calls the server by just that name in the header `:authority` of its requests, where a
//! blank must not stand. Servers of gRPC do not mind; `h2` resets the stream. So the blank is overwritten with a zero before
//! `h2` sees it, and the port is `02222`: as long as before, and the same number.
//!
//! Only the client's first request tells whether that is needed. If it is not, as for all but a few, nothing more is looked at.

/// What HTTP/2 begins with.
const PREFACE_BYTES: usize = 24;
/// The head of a frame: length, type, flags, stream.
const HEAD_BYTES: usize = 9;
/// The type of frames with the headers of a request.
const HEADERS: u8 = 1;
/// A header that is to be remembered, whose name is the first of HPACK's table: `:authority`.
const INDEXED_AUTHORITY: u8 = 0x41;

/// Follows the frames of a connection, and overwrites blanks before the port in `:authority`.
pub(super) struct AuthorityBlanks {
    /// Bytes of the preface or of a frame that are to be passed over.
    skip: usize,
    /// What has come of the next frame's head.
    head: Vec<u8>,
    has_found_some: bool,
}

impl AuthorityBlanks {
    pub(super) fn new() -> AuthorityBlanks {
        AuthorityBlanks { skip: PREFACE_BYTES, head: Vec::with_capacity(HEAD_BYTES), has_found_some: false }
    }

    /// Goes through bytes that have arrived; false if the rest of the connection need not be looked at.
    pub(super) fn overwrite(&mut self, mut bytes: &mut [u8]) -> bool {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &mut bytes[skipped..];
            let taken = (HEAD_BYTES - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..taken]);
            bytes = &mut bytes[taken..];
            let [a, b, c, kind, ..] = self.head[..] else { return true };
            if self.head.len() < HEAD_BYTES {
                return true;
            }
            self.head.clear();
            self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
            if kind == HEADERS {
                // One that comes in pieces is left as it is: a client sends its first request at once.
                let end = self.skip.min(bytes.len());
                self.has_found_some |= overwrite_in_headers(&mut bytes[..end]);
                if !self.has_found_some {
                    return false;
                }
            }
        }
    }
}

/// Looks for the header in a block that HPACK has encoded, without Huffman's code, which gRPC does not use.
fn overwrite_in_headers(block: &mut [u8]) -> bool {
    const NAME: &[u8] = b":authority";
    let by_name = (0..block.len()).filter(|&at| block[at..].starts_with(NAME)).map(|at| at + NAME.len());
    let by_number = (0..block.len()).filter(|&at| block[at] == INDEXED_AUTHORITY).map(|at| at + 1);
    for at in by_name.chain(by_number).collect::<Vec<usize>>() {
        let Some(&length) = block.get(at) else { continue };
        let Some(value) = block.get_mut(at + 1..).and_then(|rest| rest.get_mut(..usize::from(length))) else {
            continue;
        };
        let Some(colon) = value.iter().rposition(|&byte| byte == b':') else { continue };
        let (host, port) = value.split_at_mut(colon + 1);
        let blanks = leading_blanks(port);
        let is_port = port.len() > blanks && port[blanks..].iter().all(u8::is_ascii_digit);
        if blanks > 0 && is_port && host.iter().all(u8::is_ascii_graphic) {
            port[..blanks].fill(b'0');
            return true;
        }
    }
    false
}

/// How many bytes a port's leading blanks take. Newer clients, TensorFlow 2.21's among them, write each as in an address of the web.
fn leading_blanks(port: &[u8]) -> usize {
    const ESCAPED: &[u8] = b"%20";
    let mut end = 0;
    loop {
        end += match &port[end..] {
            [b' ', ..] => 1,
            rest if rest.starts_with(ESCAPED) => ESCAPED.len(),
            _ => return end,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, 4, 0, 0, 0, 1], payload].concat()
    }

    fn literal(start: &[u8], value: &str) -> Vec<u8> {
        [start, &[value.len() as u8], value.as_bytes()].concat()
    }

    /// A connection of settings, a request and a message with the same bytes.
    fn connection(headers: &[u8]) -> Vec<u8> {
        let parts =
            [vec![b'P'; PREFACE_BYTES], frame(4, &[0; 12]), frame(HEADERS, headers), frame(0, headers)];
        parts.concat()
    }

    #[test]
    fn a_blank_before_the_port_becomes_a_zero_and_nothing_else_changes() {
        for start in [&[INDEXED_AUTHORITY][..], b"\x40\x0a:authority"] {
            let (given, expected) =
                (literal(start, "localhost: %20 2222"), literal(start, "localhost:000002222"));
            let (given, expected) = ([b"\x86", &given[..]].concat(), [b"\x86", &expected[..]].concat());
            let message = frame(0, &given);
            let mut bytes = connection(&given);
            assert!(AuthorityBlanks::new().overwrite(&mut bytes));
            let mut all = connection(&expected);
            let from = all.len() - message.len();
            all[from..].copy_from_slice(&message);
            assert_eq!(bytes, all);
        }
    }

    #[test]
    fn connections_without_blanks_are_left_alone_after_their_first_request() {
        for value in [
            "localhost:2222",
            "local host:1",
            "localhost: x",
            "localhost:%2",
            "localhost:%20",
            "localhost:",
            ":",
            "",
        ] {
            let given = connection(&literal(&[INDEXED_AUTHORITY], value));
            let mut bytes = given.clone();
            assert!(!AuthorityBlanks::new().overwrite(&mut bytes), "{value}");
            assert_eq!(bytes, given);
        }
        let mut lie = connection(&[INDEXED_AUTHORITY, 200, b'a']);
        assert!(!AuthorityBlanks::new().overwrite(&mut lie));
    }

    #[test]
    fn what_comes_in_pieces_is_followed() {
        let given = connection(&literal(&[INDEXED_AUTHORITY], "host: 1"));
        let mut blanks = AuthorityBlanks::new();
        let second = frame(HEADERS, &literal(&[INDEXED_AUTHORITY], "host: 1"));
        let mut bytes = [&given[..], &second[..]].concat();
        let (head, rest) = bytes.split_at_mut(PREFACE_BYTES + 25);
        head.chunks_mut(1).for_each(|byte| assert!(blanks.overwrite(byte)));
        assert!(blanks.overwrite(rest));
        assert_eq!(bytes.windows(6).filter(|part| part == b"host:0").count(), 2);
        let random: Vec<u8> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for piece in 1..40 {
            let mut bytes = random.clone();
            let mut blanks = AuthorityBlanks::new();
            let _ = bytes.chunks_mut(piece).all(|chunk| blanks.overwrite(chunk));
        }
    }
}
