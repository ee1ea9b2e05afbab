//! [`Strings`], the elements of a string tensor, and [`StringsBuilder`], which puts them together.
//!
//! Strings are charged to the account. A long one carries its own charge, wherever it goes: tensors share strings and parts of
//! strings, and a part keeps the whole. Short ones are charged by the tensor that holds them, as often as tensors do; a few
//! short ones are not charged at all while a step passes them on, and are counted by whoever keeps them.
//!
//! How long the results of a string op are depends on values, so nobody can say beforehand how much they take. The builder
//! charges while they are made, so that an op is stopped at the limit and not by the system.

use std::sync::Arc;

use bytes::Bytes;

use crate::memory::{self, Charge};
use crate::status::Result;

/// Strings of this length and above carry their own charge.
const LONG: usize = 1 << 10;

/// So many bytes of short strings, and their headers, are not charged by a tensor.
const FEW: usize = 1 << 10;

/// Short strings in the making are charged in lots of this size: one addition to a shared counter for many.
const LOT: usize = 64 << 10;

/// The strings of a tensor.
pub(crate) struct Strings {
    items: Box<[Bytes]>,
    /// What headers and strings take.
    bytes: usize,
    /// What of that neither this tensor nor a string itself is charged for.
    uncharged: usize,
    _charge: Charge,
}

impl Strings {
    /// These strings.
    pub(crate) fn new(mut items: Vec<Bytes>) -> Result<Arc<Strings>> {
        for item in &mut items {
            charge_if_new(item)?;
        }
        let counted = counted_bytes(&items);
        let charge = if counted < FEW { Charge::none() } else { Charge::new(counted)? };
        Ok(Arc::new(Strings::with_charge(items, charge)))
    }

    /// One string, which is there already and can be refused no more.
    pub(crate) fn one(mut item: Bytes) -> Strings {
        if is_new(&item) {
            let charge = Charge::counted(item.len());
            item = with_charge(item, charge);
        }
        Strings::with_charge(vec![item], Charge::none())
    }

    /// Strings of a message, which is charged: here only the headers are.
    pub(crate) fn of_message(items: Vec<Bytes>) -> Result<Arc<Strings>> {
        let charge = header_charge(items.len())?;
        Ok(Arc::new(Strings::with_charge(items, charge)))
    }

    /// `count` strings: `first`, then `filler` as often as needed, all of them charged.
    pub(crate) fn filled(first: &[Bytes], count: usize, filler: Bytes) -> Result<Arc<Strings>> {
        // Charged before anything is allocated: the count may come from a hostile shape.
        let charge = header_charge(count)?;
        let mut items = memory::vec_with_room(count)?;
        items.extend(first.iter().take(count).cloned());
        items.resize(count, filler);
        Ok(Arc::new(Strings::with_charge(items, charge)))
    }

    fn with_charge(items: Vec<Bytes>, charge: Charge) -> Strings {
        let bytes = items.iter().fold(size_of_val(&*items), |sum, item| sum.saturating_add(item.len()));
        let uncharged = if charge.bytes() > 0 { 0 } else { counted_bytes(&items) };
        Strings { items: items.into(), bytes, uncharged, _charge: charge }
    }

    /// What headers and strings take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What keeping them takes that is not charged.
    pub(crate) fn uncharged_bytes(&self) -> usize {
        self.uncharged
    }
}

impl std::ops::Deref for Strings {
    type Target = [Bytes];
    fn deref(&self) -> &[Bytes] {
        &self.items
    }
}

fn header_charge(count: usize) -> Result<Charge> {
    match count.saturating_mul(size_of::<Bytes>()) {
        0..FEW => Ok(Charge::none()),
        bytes => Charge::new(bytes),
    }
}

/// What a tensor of these strings is charged: their headers, and those that do not carry a charge of their own.
fn counted_bytes(items: &[Bytes]) -> usize {
    items.iter().fold(size_of_val(items), |sum, item| sum + if item.len() < LONG { item.len() } else { 0 })
}

/// A long string with the charge for it.
struct LongString {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for LongString {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether a string is long and has just been made: nobody shares it, and nobody else owns its memory. One with a charge belongs
/// to the charge, so it is never wrapped twice.
fn is_new(item: &Bytes) -> bool {
    item.len() >= LONG && item.is_unique()
}

fn with_charge(bytes: Bytes, charge: Charge) -> Bytes {
    Bytes::from_owner(LongString { bytes, _charge: charge })
}

fn charge_if_new(item: &mut Bytes) -> Result<()> {
    if is_new(item) {
        let charge = Charge::new(item.len())?;
        *item = with_charge(std::mem::take(item), charge);
    }
    Ok(())
}

/// Strings of a tensor in the making.
pub struct StringsBuilder {
    items: Vec<Bytes>,
    /// For headers and short strings.
    charge: Charge,
    /// Bytes of those since the last charge.
    uncharged: usize,
}

impl StringsBuilder {
    /// Room for `count` strings; there may be more.
    pub fn new(count: usize) -> Result<StringsBuilder> {
        let mut builder = StringsBuilder { items: Vec::new(), charge: Charge::none(), uncharged: 0 };
        if count > 0 {
            builder.make_room(count)?;
        }
        Ok(builder)
    }

    /// Adds a string. A long one should have been checked before it was made ([`memory::vec_with_room`]).
    pub fn push(&mut self, string: impl Into<Bytes>) -> Result<()> {
        let mut string = string.into();
        if self.items.len() == self.items.capacity() {
            self.make_room(1)?;
        }
        match string.len() {
            0..LONG => self.account(string.len())?,
            _ => charge_if_new(&mut string)?,
        }
        self.items.push(string);
        Ok(())
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    fn make_room(&mut self, more: usize) -> Result<()> {
        let before = self.items.capacity();
        memory::make_room(&mut self.items, more)?;
        self.account((self.items.capacity() - before) * size_of::<Bytes>())
    }

    fn account(&mut self, bytes: usize) -> Result<()> {
        self.uncharged = self.uncharged.saturating_add(bytes);
        if self.uncharged >= LOT {
            self.charge.grow(self.uncharged)?;
            self.uncharged = 0;
        }
        Ok(())
    }

    /// What a tensor holds; [`StringsBuilder::finish`] makes it one.
    pub(crate) fn strings(mut self) -> Result<Strings> {
        if self.charge.bytes() + self.uncharged >= FEW {
            self.charge.grow(self.uncharged)?;
        }
        Ok(Strings::with_charge(self.items, self.charge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Tensor};

    #[test]
    fn strings_are_charged_while_they_are_made() {
        let mut builder = StringsBuilder::new(0).unwrap();
        for _ in 0..1000 {
            builder.push(vec![b'x'; 900]).unwrap();
        }
        assert!(builder.charge.bytes() >= 900_000);
        let tensor = builder.finish(&[10, 100]).unwrap();
        assert_eq!(tensor.byte_size(), 1000 * (900 + size_of::<Bytes>()));
        assert!(tensor.kept_bytes() < 1000, "its strings are charged already");
        assert_eq!(StringsBuilder::new(1 << 48).err().unwrap().code(), Code::ResourceExhausted);
    }

    #[test]
    fn a_small_tensor_is_counted_by_who_keeps_it() {
        let mut builder = StringsBuilder::new(1).unwrap();
        builder.push("hello").unwrap();
        let tensor = builder.finish(&[]).unwrap();
        assert_eq!(tensor, Tensor::string("hello"));
        assert!(tensor.kept_bytes() >= 5 + size_of::<Bytes>());
    }

    #[test]
    fn a_long_string_carries_one_charge_wherever_it_goes() {
        let mut long = Bytes::from(vec![b'x'; 1 << 20]);
        charge_if_new(&mut long).unwrap();
        let address = long.as_ptr();
        // It has an owner now, so that another tensor does not charge for it again, nor for a part of it.
        for _ in 0..300_000 {
            charge_if_new(&mut long).unwrap();
            assert!(!is_new(&long));
        }
        let part = long.slice(10..5000);
        drop(long);
        assert!(!is_new(&part));
        assert_eq!(part.as_ptr(), address.wrapping_add(10));
        let tensor = Tensor::string(vec![b'y'; 1 << 20]);
        assert!(tensor.byte_size() > 1 << 20 && tensor.kept_bytes() < 1000);
        assert!(!is_new(&tensor.as_strings().unwrap()[0]));
    }
}
