//! Reading files into memory, as far as the account allows: a file may be long, unpack to much, or have no end.

use std::fs;
use std::io::{self, BufRead, Read};
use std::path::Path;

use super::account::{append, vec_with_room};
use crate::status::Result;

/// Reads `input` to its end, into a vector that grows as far as the account allows: a file may have no end.
pub fn read_to_end(input: &mut impl Read, out: &mut Vec<u8>) -> Result<io::Result<()>> {
    loop {
        // A vector that is as long as what is read needs no second one to see the end.
        if out.len() == out.capacity() {
            let mut probe = [0; 32];
            match input.read(&mut probe) {
                Ok(0) => return Ok(Ok(())),
                Ok(count) => append(out, &probe[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(error)),
            }
        }
        let (len, room) = (out.len(), out.capacity());
        out.resize(room.min(len.saturating_add(READ_BYTES)), 0);
        let read = input.read(&mut out[len..]);
        out.truncate(len + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) if room > len => return Ok(Ok(())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// How much is read at a time.
const READ_BYTES: usize = 1 << 20;

/// The content of a file, as far as the account allows.
pub fn read_file(path: &Path) -> Result<io::Result<Vec<u8>>> {
    let mut file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    let mut content = vec_with_room(usize::try_from(len).unwrap_or(usize::MAX))?;
    Ok(read_to_end(&mut file, &mut content)?.map(|()| content))
}

/// Reads up to and including the next `end`, or to the end of the input, and says how many bytes that were.
pub fn read_until(input: &mut impl BufRead, end: u8, out: &mut Vec<u8>) -> Result<io::Result<usize>> {
    let before = out.len();
    loop {
        let found = match input.fill_buf() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Ok(Err(error)),
        };
        let place = found.iter().position(|&byte| byte == end);
        let taken = place.map_or(found.len(), |place| place + 1);
        append(out, &found[..taken])?;
        input.consume(taken);
        if place.is_some() || taken == 0 {
            return Ok(Ok(out.len() - before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_if_it_has_one() {
        for len in [0, 1, 31, 32, 100_000, 3 << 20] {
            let mut read = Vec::new();
            let content = vec![7; len];
            read_to_end(&mut &content[..], &mut read).unwrap().unwrap();
            assert_eq!(read.len(), len);
        }
        let own = std::env::current_exe().unwrap();
        let len = std::fs::metadata(&own).unwrap().len();
        assert_eq!(read_file(&own).unwrap().unwrap().len() as u64, len);
        assert!(read_file(std::path::Path::new("/nowhere")).unwrap().is_err());
    }

    #[test]
    fn lines_end_where_they_end() {
        let mut input = io::BufReader::with_capacity(3, &b"one\n\nthree"[..]);
        let mut next = || {
            let mut line = Vec::new();
            let read = read_until(&mut input, b'\n', &mut line).unwrap().unwrap();
            assert_eq!(read, line.len());
            String::from_utf8(line).unwrap()
        };
        assert_eq!([next(), next(), next(), next()], ["one\n", "\n", "three", ""]);
    }
}
