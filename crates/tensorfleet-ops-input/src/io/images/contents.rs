//! [`Contents`]: the bytes of an image, for decoders that read on as long as somebody waits for the image.
//!
//! A decoder is one call from the first byte to the last pixel, and that may be seconds. It asks for its input piece by piece,
//! so there its step's cancellation reaches it: once nobody waits any more, reading fails.

use std::io::{BufRead, Error, Read, Result, Seek, SeekFrom};

use tensorfleet_kernel::cancellation::Cancellation;

/// The longest piece. Unpacked, it is a thousand times as long at most, which takes some hundredths of a second.
const PIECE_BYTES: usize = 32 << 10;

/// The bytes of an image, until its step is given up.
pub(super) struct Contents<'a> {
    bytes: &'a [u8],
    position: usize,
    cancellation: &'a Cancellation,
}

impl<'a> Contents<'a> {
    pub(super) fn new(bytes: &'a [u8], cancellation: &'a Cancellation) -> Contents<'a> {
        Contents { bytes, position: 0, cancellation }
    }

    /// All bytes, whatever was read.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn cancellation(&self) -> &'a Cancellation {
        self.cancellation
    }
}

impl BufRead for Contents<'_> {
    #[inline]
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.cancellation.is_cancelled() {
            return Err(Error::other("nobody waits for the image any more"));
        }
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        Ok(&rest[..rest.len().min(PIECE_BYTES)])
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.position += count;
    }
}

impl Read for Contents<'_> {
    #[inline]
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        let count = self.fill_buf()?.read(to)?;
        self.consume(count);
        Ok(count)
    }
}

impl Seek for Contents<'_> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(offset) => (self.bytes.len() as u64).checked_add_signed(offset),
            SeekFrom::Current(offset) => (self.position as u64).checked_add_signed(offset),
        };
        let place = place.and_then(|place| usize::try_from(place).ok());
        self.position = place.ok_or_else(|| Error::other("a place before the beginning"))?;
        Ok(self.position as u64)
    }
}
