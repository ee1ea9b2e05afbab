//! The account: what the values, buffers and graphs of this process take, against one limit.
//!
//! Sizes come from graphs that anyone may send. So whatever a graph can make grow is charged here, before it is allocated, and
//! given back when it goes; beyond the limit a charge is an error, not an abort. A charge is one addition to one counter. What
//! is small and short-lived (a scalar on its way from node to node) is not charged; where small things are *kept* (a queue, a
//! list, a shuffle buffer, a graph), whoever keeps them has a [`Kept`].
//!
//! What is kept may take seven eighths of the limit. The rest is for steps at work: a queue that is full must not stop the
//! step that would empty it, nor another client's.
//!
//! A count of what was asked for is not what the process takes: allocators round up, heaps have holes, threads have stacks. So
//! each time the account has grown by some megabytes the system is asked as well (`system`).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{release_freed, system, trim_heaps};
use crate::status::{Result, Status};

static USED_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Zero until somebody asks for it or sets it.
static LIMIT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The system is asked what the process takes each time the account passes a multiple of this.
const LOOK_EVERY: usize = 32 << 20;

/// Sets how many bytes this process may charge altogether. The default leaves a share of what the system grants free.
pub fn set_limit_bytes(limit: usize) {
    LIMIT_BYTES.store(limit.max(1), Relaxed);
}

/// The limit in force.
pub fn limit_bytes() -> usize {
    match LIMIT_BYTES.load(Relaxed) {
        0 => {
            let limit = system::default_limit();
            LIMIT_BYTES.store(limit, Relaxed);
            limit
        }
        limit => limit,
    }
}

/// Bytes that are charged now.
pub fn live_bytes() -> usize {
    USED_BYTES.load(Relaxed)
}

/// Whether `bytes` more would fit below the limit, for what is big for a moment only.
pub fn check_fits(bytes: usize) -> Result<()> {
    Charge::new(bytes).map(drop)
}

/// Bytes counted against the limit as long as this lives.
#[derive(Debug, Default)]
pub struct Charge(usize);

impl Charge {
    /// Charges `bytes` for a value of a step.
    pub fn new(bytes: usize) -> Result<Charge> {
        take(bytes, limit_bytes())?;
        Ok(Charge(bytes))
    }

    /// Counts bytes that are there already and cannot be refused any more; the next charge is.
    pub fn counted(bytes: usize) -> Charge {
        USED_BYTES.fetch_add(bytes, Relaxed);
        Charge(bytes)
    }

    /// Counts nothing.
    pub const fn none() -> Charge {
        Charge(0)
    }

    /// Charges `bytes` more.
    pub fn grow(&mut self, bytes: usize) -> Result<()> {
        take(bytes, limit_bytes())?;
        self.0 += bytes;
        Ok(())
    }

    /// How many bytes are charged.
    pub fn bytes(&self) -> usize {
        self.0
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

/// What something that keeps values takes, as it grows and shrinks. Charges are made in steps that grow with it, so that most
/// additions touch no shared counter.
#[derive(Debug, Default)]
pub struct Kept {
    /// What is held.
    held: usize,
    /// What is charged for it: as much, or somewhat more.
    charged: usize,
}

/// Less than this is not worth giving back.
const SLACK: usize = 4 << 10;

impl Kept {
    /// Something that holds `bytes` from its beginning.
    pub fn new(bytes: usize) -> Result<Kept> {
        let mut kept = Kept::default();
        kept.add(bytes)?;
        Ok(kept)
    }

    /// Holds `bytes` more, if that may be.
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        let limit = limit_bytes();
        let held = self.held.checked_add(bytes).ok_or_else(|| exhausted(bytes, limit))?;
        if held > self.charged {
            let missing = held - self.charged;
            let ahead = missing.max(self.charged / 8);
            // Close to the limit it takes no more than it needs.
            match take(ahead, limit - limit / 8) {
                Ok(()) => self.charged += ahead,
                Err(_) => {
                    take(missing, limit - limit / 8)?;
                    self.charged += missing;
                }
            }
        }
        self.held = held;
        Ok(())
    }

    /// Holds `bytes` less.
    pub fn remove(&mut self, bytes: usize) {
        self.held = self.held.saturating_sub(bytes);
        let wanted = self.held + self.held / 8;
        if self.charged > 2 * wanted + SLACK {
            USED_BYTES.fetch_sub(self.charged - wanted, Relaxed);
            self.charged = wanted;
        }
    }

    /// Holds nothing any more.
    pub fn clear(&mut self) {
        give_back(std::mem::take(&mut self.charged));
        self.held = 0;
    }
}

impl Clone for Kept {
    /// For a copy that is made already; who copies much asks before.
    fn clone(&self) -> Kept {
        USED_BYTES.fetch_add(self.held, Relaxed);
        Kept { held: self.held, charged: self.held }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Takes charged bytes off the account. Many have none, and the counter is everybody's.
fn give_back(bytes: usize) {
    if bytes > 0 {
        USED_BYTES.fetch_sub(bytes, Relaxed);
    }
}

/// An empty vector with room for `len` elements: what is too much is an error, whoever says so.
pub fn vec_with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    make_room(&mut vec, len)?;
    Ok(vec)
}

/// A vector of `len` times the same.
pub fn vec_of<T: Clone>(value: T, len: usize) -> Result<Vec<T>> {
    let mut vec = vec_with_room(len)?;
    vec.resize(len, value);
    Ok(vec)
}

/// A copy of a slice.
pub fn copy_of<T: Clone>(elements: &[T]) -> Result<Vec<T>> {
    let mut vec = vec_with_room(elements.len())?;
    vec.extend_from_slice(elements);
    Ok(vec)
}

/// The items as a vector, as [`Iterator::collect`] makes one: for scratch space that is as long as some tensor or file.
pub fn collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut items = items.into_iter();
    let (announced, at_most) = items.size_hint();
    let mut vec = vec_with_room(announced)?;
    if at_most == Some(announced) {
        vec.extend(items);
        return Ok(vec);
    }
    vec.extend(items.by_ref().take(announced));
    for item in items {
        make_room(&mut vec, 1)?;
        vec.push(item);
    }
    Ok(vec)
}

/// Below this a vector is left to the allocator: the reserve that the limit leaves is bigger by far.
const CHECK_FROM: usize = 64 << 10;

/// Makes room for `more` elements, as [`Vec::reserve`] does, or says that there is none.
pub fn make_room<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    if vec.capacity() - vec.len() >= more {
        return Ok(());
    }
    let room = |vec: &mut Vec<T>, more: usize| {
        // What it holds already is on nobody's account.
        let bytes = vec.len().saturating_add(more).saturating_mul(size_of::<T>());
        if bytes >= CHECK_FROM {
            check_fits(bytes)?;
        }
        vec.try_reserve_exact(more).map_err(|_| exhausted(bytes, limit_bytes()))
    };
    // Twice as much, so that growing in small steps stays linear; or what is needed, if that is all there is.
    if vec.capacity() > more && room(vec, vec.capacity()).is_ok() {
        return Ok(());
    }
    room(vec, more)
}

/// Appends elements, or says that there is no room for them.
pub fn append<T: Clone>(vec: &mut Vec<T>, elements: &[T]) -> Result<()> {
    make_room(vec, elements.len())?;
    vec.extend_from_slice(elements);
    Ok(())
}

/// Adds to the account, up to `limit`.
#[inline]
fn take(bytes: usize, limit: usize) -> Result<()> {
    if bytes > limit {
        return Err(exhausted(bytes, limit));
    }
    let before = USED_BYTES.fetch_add(bytes, Relaxed);
    let after = before.saturating_add(bytes);
    let refused = if after > limit {
        Some(exhausted(bytes, limit))
    } else if before / LOOK_EVERY != after / LOOK_EVERY {
        look(bytes).err()
    } else {
        None
    };
    match refused {
        None => Ok(()),
        Some(status) => {
            USED_BYTES.fetch_sub(bytes, Relaxed);
            Err(status)
        }
    }
}

/// Whether the process itself, whatever takes its memory, has room for `bytes`.
#[cold]
fn look(bytes: usize) -> Result<()> {
    let Some(shortage) = system::shortage(bytes, limit_bytes()) else { return Ok(()) };
    tracing::debug!("{shortage}: giving back what is kept for reuse");
    release_freed();
    trim_heaps();
    match system::shortage(bytes, limit_bytes()) {
        None => Ok(()),
        Some(shortage) => {
            let account = exhausted(bytes, limit_bytes());
            Err(Status::resource_exhausted(format!("{}; {shortage}", account.text())))
        }
    }
}

#[cold]
pub(super) fn exhausted(bytes: usize, limit: usize) -> Status {
    Status::resource_exhausted(format!(
        "OOM when allocating {bytes} bytes: {} bytes are in use and the limit is {limit} bytes; free something, or start the \
         server with a higher limit (--max-memory-mb of `tensorfleet serve`)",
        live_bytes()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    // Other tests of this process charge at the same time, so these look at their own charges only.

    #[test]
    fn what_is_too_much_is_refused_and_leaves_no_trace() {
        for bytes in [1 << 50, usize::MAX] {
            let status = Charge::new(bytes).unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted);
            for part in [&bytes.to_string(), "in use", "limit is", "--max-memory-mb"] {
                assert!(status.text().contains(part), "{part}: {status}");
            }
            let mut kept = Kept::new(100).unwrap();
            assert!(kept.add(bytes).is_err());
            assert!(kept.charged < 1 << 20);
        }
    }

    #[test]
    fn what_is_kept_is_charged_in_growing_steps_and_given_back() {
        let mut kept = Kept::default();
        let mut steps = 0;
        for held in 1..=10_000 {
            let before = kept.charged;
            kept.add(100).unwrap();
            steps += usize::from(kept.charged != before);
            assert!(kept.charged >= 100 * held && kept.charged <= 100 * held * 9 / 8 + 100);
        }
        assert!(steps < 100, "{steps} charges for 10 000 additions");
        for _ in 0..10_000 {
            kept.remove(100);
            assert!(kept.charged >= kept.held);
        }
        assert!(kept.charged <= SLACK);
    }

    #[test]
    fn a_vector_that_cannot_be_is_an_error() {
        assert!(vec_with_room::<u64>(usize::MAX / 4).is_err());
        assert!(vec_with_room::<u64>(1 << 50).is_err());
        let mut vec = vec_with_room::<u8>(10).unwrap();
        let address = vec.as_ptr();
        append(&mut vec, &[1; 10]).unwrap();
        assert_eq!(vec.as_ptr(), address);
        assert!(make_room(&mut vec, usize::MAX).is_err());
        append(&mut vec, &[2]).unwrap();
        assert!(vec.capacity() >= 20 && vec.len() == 11);
        assert_eq!(copy_of(&vec).unwrap(), vec);
    }

    #[test]
    fn items_are_collected_however_many_were_announced() {
        assert_eq!(collect(0..5).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(collect((0..100).filter(|number| number % 30 == 0)).unwrap(), [0, 30, 60, 90]);
        assert_eq!(collect((0..10).flat_map(|row| vec![row; row])).unwrap().len(), 45);
        assert_eq!(collect(0..1u64 << 50).unwrap_err().code(), Code::ResourceExhausted);
        assert_eq!(
            collect(std::iter::repeat_n([0u8; 1 << 20], 1 << 40)).unwrap_err().code(),
            Code::ResourceExhausted
        );
    }
}
