//! [`Pieces`]: several byte strings in one input.
//!
//! Each piece is preceded by its length, two bytes; the last one is what remains. A fuzzer that changes a length moves bytes
//! from one piece to the next, and any input can be read.

/// Takes an input apart.
pub(super) struct Pieces<'a>(&'a [u8]);

impl<'a> Pieces<'a> {
    pub(super) fn of(data: &'a [u8]) -> Pieces<'a> {
        Pieces(data)
    }

    /// The next byte; 0 after the end.
    pub(super) fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    /// The next piece, which ends at the end of the input if its length says more; `None` after the end.
    pub(super) fn piece(&mut self) -> Option<&'a [u8]> {
        let (&length, rest) = self.0.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        self.0 = rest;
        Some(piece)
    }

    /// Whatever is left.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Puts pieces together, as seeds are made.
pub(super) fn join(first: &[u8], pieces: &[&[u8]], rest: &[u8]) -> Vec<u8> {
    let mut input = first.to_vec();
    for piece in pieces {
        let length = piece.len().min(usize::from(u16::MAX));
        input.extend_from_slice(&(length as u16).to_le_bytes());
        input.extend_from_slice(&piece[..length]);
    }
    input.extend_from_slice(rest);
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_joined_comes_apart_and_anything_else_ends() {
        let input = join(&[7], &[b"ab", b""], b"rest");
        let mut pieces = Pieces::of(&input);
        assert_eq!((pieces.byte(), pieces.piece(), pieces.piece()), (7, Some(&b"ab"[..]), Some(&b""[..])));
        assert_eq!(pieces.rest(), b"rest");
        let mut short = Pieces::of(&[9, 0, 1]);
        assert_eq!((short.piece(), short.piece(), short.byte()), (Some(&[1][..]), None, 0));
    }
}
