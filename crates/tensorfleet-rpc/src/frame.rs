//! The numbers both ends agree on: gRPC's message prefix, and the HTTP/2 settings that decide speed.

/// A flag byte and four bytes of length stand before every message.
pub(crate) const PREFIX_BYTES: usize = 5;

/// The longest message that may cross, both ways: TensorFlow computes sizes in 32-bit signed integers.
pub const MAX_MESSAGE_BYTES: usize = i32::MAX as usize;

/// The frame size we ask the peer for. The receiver's limit decides how many system calls and copies a big tensor
/// costs: 1 MiB frames move 100 MB three times as fast as the default 16 KiB.
pub(crate) const FRAME_BYTES: u32 = 1 << 20;

/// How much of one message may be on its way unread. Frames are copied out as they arrive, so this bounds memory only
/// for a reader that has stopped.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 64 << 20;

/// The same for all messages of a connection together.
pub(crate) const CONNECTION_WINDOW_BYTES: u32 = 256 << 20;

/// How many calls may be pending on one connection of a server with memory for them. Every receive of a step is a pending
/// call, and a call that cannot start while others wait for it would be a deadlock.
pub(crate) const MAX_STREAMS: u32 = 1 << 20;

/// How many calls may be cancelled in one go: a step that fails cancels all of its receives at once. HTTP/2 libraries
/// take more than a few for an attack.
pub(crate) const MAX_RESETS: usize = 100_000;

/// How many calls that a server has not looked at may have been cancelled by their client: each takes some kilobytes until
/// then. A step's receives wait, so they have been looked at when they are cancelled.
pub(crate) const MAX_UNSEEN_RESETS: usize = 10_000;
