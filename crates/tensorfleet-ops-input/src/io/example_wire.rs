//! Looking into a serialized `tf.Example` without decoding it whole.
//!
//! An example is a map from keys to lists, and a pipeline wants some of its keys, of every one of millions of examples. Decoding one
//! into messages makes a map, a string for each key and a vector for each list, which are thrown away at once. Here keys and lists
//! are found where they lie, and the elements of the lists that are wanted go straight to where they are wanted.

use bytes::Bytes;
use smallvec::SmallVec;
use tensorfleet_core::DType;

/// The features of one example, by key.
pub(super) struct ExampleView<'a> {
    record: &'a Bytes,
    /// Keys and serialized features, in the order of the keys; of those with the same key the last one counts.
    features: SmallVec<[(&'a [u8], &'a [u8]); 8]>,
}

/// The list of one feature, in pieces: a message may be cut up, and each piece has some elements.
pub(super) struct FeatureView<'a> {
    record: &'a Bytes,
    dtype: DType,
    lists: SmallVec<[&'a [u8]; 1]>,
}

impl<'a> ExampleView<'a> {
    /// Finds the features of a record; `None` if it is no example.
    pub(super) fn of(record: &'a Bytes) -> Option<ExampleView<'a>> {
        let mut features = SmallVec::new();
        for field in Fields(record) {
            let (1, Content::Bytes(map)) = field? else { continue };
            for entry in Fields(map) {
                let (1, Content::Bytes(entry)) = entry? else { continue };
                let (mut key, mut value) = (&[][..], &[][..]);
                for part in Fields(entry) {
                    match part? {
                        (1, Content::Bytes(bytes)) => key = bytes,
                        (2, Content::Bytes(bytes)) => value = bytes,
                        _ => {}
                    }
                }
                features.push((key, value));
            }
        }
        features.sort_by_key(|&(key, _)| key);
        Some(ExampleView { record, features })
    }

    /// The feature of a key. `Some(None)` if it cannot be read; a feature without a list is none.
    pub(super) fn feature(&self, key: &str) -> Option<Option<FeatureView<'a>>> {
        let behind = self.features.partition_point(|&(found, _)| found <= key.as_bytes());
        let &(found, feature) = self.features.get(behind.checked_sub(1)?)?;
        if found != key.as_bytes() {
            return None;
        }
        let (mut known, mut lists) = (None, SmallVec::new());
        for field in Fields(feature) {
            let Some((number, Content::Bytes(list))) = field else { return Some(None) };
            let dtype = match number {
                1 => DType::String,
                2 => DType::Float,
                3 => DType::Int64,
                _ => continue,
            };
            // Lists of one kind add up, one of another kind takes their place.
            if known.replace(dtype) != Some(dtype) {
                lists.clear();
            }
            lists.push(list);
        }
        known.map(|dtype| Some(FeatureView { record: self.record, dtype, lists }))
    }
}

impl FeatureView<'_> {
    /// What the list has: strings, floats or 64-bit integers.
    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many elements there can be at most.
    pub(super) fn max_len(&self) -> usize {
        let lists = self.lists.iter();
        match self.dtype {
            // Numbers that are packed take the fewest bytes.
            DType::Float => lists.map(|list| list.len() / size_of::<f32>()).sum(),
            DType::Int64 => lists.map(|list| list.len()).sum(),
            // Strings are few, but may be long.
            _ => lists.map(|list| Fields(list).take_while(Option::is_some).count()).sum(),
        }
    }

    /// Appends the elements of a list of floats; `None` if they cannot be read.
    pub(super) fn floats(&self, out: &mut Vec<f32>) -> Option<()> {
        self.elements(|content| match content {
            Content::Fixed32(bits) => {
                out.push(f32::from_bits(bits));
                Some(())
            }
            Content::Bytes(packed) => {
                let (floats, rest) = packed.as_chunks::<4>();
                out.extend(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)));
                rest.is_empty().then_some(())
            }
            _ => None,
        })
    }

    /// Appends the elements of a list of integers; `None` if they cannot be read.
    pub(super) fn integers(&self, out: &mut Vec<i64>) -> Option<()> {
        self.elements(|content| match content {
            Content::Varint(value) => {
                out.push(value as i64);
                Some(())
            }
            Content::Bytes(mut packed) => {
                while !packed.is_empty() {
                    out.push(varint(&mut packed)? as i64);
                }
                Some(())
            }
            _ => None,
        })
    }

    /// Appends the elements of a list of strings, which share the record's memory; `None` if they cannot be read.
    pub(super) fn strings(&self, out: &mut Vec<Bytes>) -> Option<()> {
        self.elements(|content| match content {
            Content::Bytes(text) => {
                out.push(self.record.slice_ref(text));
                Some(())
            }
            _ => None,
        })
    }

    fn elements<'a>(&'a self, mut each: impl FnMut(Content<'a>) -> Option<()>) -> Option<()> {
        for list in &self.lists {
            for field in Fields(list) {
                if let (1, content) = field? {
                    each(content)?;
                }
            }
        }
        Some(())
    }
}

/// What a field of a message holds.
enum Content<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64,
    Bytes(&'a [u8]),
}

/// The fields of a serialized message with their numbers; `None` once, and then the end, where it cannot be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Content<'a>)>;

    #[inline]
    fn next(&mut self) -> Option<Option<(u64, Content<'a>)>> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    #[inline]
    fn field(&mut self) -> Option<(u64, Content<'a>)> {
        let key = varint(&mut self.0)?;
        let content = match key & 7 {
            0 => Content::Varint(varint(&mut self.0)?),
            1 => {
                self.0.split_off(..8)?;
                Content::Fixed64
            }
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).ok()?;
                Content::Bytes(self.0.split_off(..length)?)
            }
            5 => Content::Fixed32(u32::from_le_bytes(*self.0.split_off(..4)?.first_chunk()?)),
            // Groups went out of use before there were examples.
            _ => return None,
        };
        Some((key >> 3, content))
    }
}

#[inline]
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;
    use tensorfleet_proto::tensorflow::feature::Kind;
    use tensorfleet_proto::tensorflow::{BytesList, Example, Feature, Features, FloatList, Int64List};

    use super::*;

    fn kinds() -> impl Strategy<Value = Option<Kind>> {
        prop_oneof![
            Just(None),
            prop::collection::vec(any::<i64>(), 0..5)
                .prop_map(|value| Some(Kind::Int64List(Int64List { value }))),
            prop::collection::vec(-1e3f32..1e3, 0..5)
                .prop_map(|value| Some(Kind::FloatList(FloatList { value }))),
            prop::collection::vec("[a-z]{0,3}", 0..5).prop_map(|texts| {
                let value = texts.into_iter().map(Bytes::from).collect();
                Some(Kind::BytesList(BytesList { value }))
            }),
        ]
    }

    /// The list of a feature as the view finds it.
    fn found(view: &FeatureView<'_>) -> Option<Kind> {
        let (mut floats, mut integers, mut strings) = (Vec::new(), Vec::new(), Vec::new());
        match view.dtype() {
            DType::Float => view.floats(&mut floats).map(|()| Kind::FloatList(FloatList { value: floats })),
            DType::Int64 => {
                view.integers(&mut integers).map(|()| Kind::Int64List(Int64List { value: integers }))
            }
            _ => view.strings(&mut strings).map(|()| Kind::BytesList(BytesList { value: strings })),
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_decoding_finds(features in prop::collection::hash_map("[a-d]{0,2}", kinds(), 0..6)) {
            let feature = features.into_iter().map(|(key, kind)| (key, Feature { kind })).collect();
            let example = Example { features: Some(Features { feature }) };
            // Twice the same message is one whose lists come twice, of which those behind count.
            let once = example.encode_to_vec();
            for record in [once.clone(), [once.clone(), once].concat()] {
                let record = Bytes::from(record);
                let decoded = Example::decode(record.clone()).unwrap().features.unwrap_or_default();
                let view = ExampleView::of(&record).unwrap();
                for (key, Feature { kind }) in &decoded.feature {
                    let feature = view.feature(key).flatten();
                    prop_assert_eq!(&feature.and_then(|feature| found(&feature)), kind);
                }
                prop_assert!(view.feature("no such key").is_none());
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let record = Bytes::from(bytes);
            if let Some(view) = ExampleView::of(&record) {
                for key in ["", "a"] {
                    view.feature(key).flatten().and_then(|feature| found(&feature));
                }
            }
        }
    }

    #[test]
    fn lists_may_be_packed_or_not() {
        // key "k", int64_list with 5 unpacked and [6, 7] packed.
        let list = [0x08, 5, 0x0a, 2, 6, 7];
        let feature = [&[0x1a, list.len() as u8][..], &list].concat();
        let entry = [&[0x0a, 1, b'k', 0x12, feature.len() as u8][..], &feature].concat();
        let map = [&[0x0a, entry.len() as u8][..], &entry].concat();
        let record = Bytes::from([&[0x0a, map.len() as u8][..], &map].concat());
        let view = ExampleView::of(&record).unwrap();
        let feature = view.feature("k").unwrap().unwrap();
        assert_eq!(found(&feature), Some(Kind::Int64List(Int64List { value: vec![5, 6, 7] })));
    }

    #[test]
    fn records_that_are_cut_short_are_no_examples() {
        assert!(ExampleView::of(&Bytes::from_static(&[0x0a, 5, 1])).is_none());
        assert!(ExampleView::of(&Bytes::from_static(&[0x80])).is_none());
    }
}
