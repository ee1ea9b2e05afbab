//! [`RawClient`]: HTTP/2 by hand, for clients that do what no library lets them do: stop in the middle, never read, come
//! without end.
//!
//! Comes by TCP, also where a client of ours would take the shorter way of one machine, so that each is a client of its
//! own to the server.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The frame size that a server accepts unasked.
const MAX_FRAME: usize = 16 << 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The code of a call that is not wanted any more.
const CANCEL: u32 = 8;

/// A connection and the number of its next stream.
pub struct RawClient {
    stream: TcpStream,
    next: u32,
    /// Streams whose message has come, but not yet the end: answers of several calls may be interleaved.
    with_message: HashSet<u32>,
}

/// How a call was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// With a message.
    Message,
    /// With an error.
    Error,
    /// Not at all: the connection was closed.
    Closed,
}

impl RawClient {
    /// Connects and greets.
    pub fn connect(address: SocketAddr) -> io::Result<RawClient> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(&greeting())?;
        Ok(RawClient { stream, next: 1, with_message: HashSet::new() })
    }

    /// Sends a call of `method`, or the beginning of one: `message` is what is sent of the `announced` bytes.
    pub fn call(&mut self, method: &str, announced: usize, message: &[u8]) -> io::Result<()> {
        let bytes = call(self.next, method, announced, message);
        self.next += 2;
        self.stream.write_all(&bytes)
    }

    /// How many calls it has begun.
    pub fn calls(&self) -> usize {
        self.next as usize / 2
    }

    /// Begins so many calls of `method`, and withdraws each at once.
    pub fn call_and_reset(&mut self, method: &str, count: usize) -> io::Result<()> {
        let head = head(method);
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(frame(HEADERS, END_HEADERS, self.next, &head));
            bytes.extend(frame(RST_STREAM, 0, self.next, &CANCEL.to_be_bytes()));
            self.next += 2;
        }
        self.stream.write_all(&bytes)
    }

    /// Waits until another call is answered, at most `limit`.
    pub fn answer(&mut self, limit: Duration) -> io::Result<Answered> {
        self.stream.set_read_timeout(Some(limit))?;
        loop {
            let mut head = [0; 9];
            match self.stream.read_exact(&mut head) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Answered::Closed),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Answered::Closed),
                Err(error) => return Err(error),
            }
            let [a, b, c, kind, flags, stream @ ..] = head;
            let stream = u32::from_be_bytes(stream);
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            self.stream.read_exact(&mut payload)?;
            match kind {
                DATA => {
                    self.with_message.insert(stream);
                }
                HEADERS if flags & END_STREAM != 0 => {
                    let has_message = self.with_message.remove(&stream);
                    return Ok(if has_message { Answered::Message } else { Answered::Error });
                }
                _ => {}
            }
        }
    }
}

/// What a client sends first, and then its first call, or the beginning of one: `message` is what is sent of the `announced` bytes.
pub fn greeting_and_call(method: &str, announced: usize, message: &[u8]) -> Vec<u8> {
    [greeting(), call(1, method, announced, message)].concat()
}

fn greeting() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

fn head(method: &str) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "test"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        // A literal that is not to be remembered: name and value, each with its length.
        head.push(0);
        for text in [name, value] {
            head.push(text.len() as u8);
            head.extend(text.as_bytes());
        }
    }
    head
}

fn call(stream: u32, method: &str, announced: usize, message: &[u8]) -> Vec<u8> {
    let mut bytes = frame(HEADERS, END_HEADERS, stream, &head(method));
    let mut body = vec![0];
    body.extend((announced as u32).to_be_bytes());
    body.extend(message);
    let pieces = body.chunks(MAX_FRAME);
    let (last, is_whole) = (pieces.len() - 1, announced == message.len());
    for (index, piece) in pieces.enumerate() {
        let flags = if is_whole && index == last { END_STREAM } else { 0 };
        bytes.extend(frame(DATA, flags, stream, piece));
    }
    bytes
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}
