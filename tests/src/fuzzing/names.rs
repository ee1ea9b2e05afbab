//! Names that clients and peers spell: devices, rendezvous keys, slices.

use tensorfleet_core::{DeviceName, RendezvousKey};
use tensorfleet_files::tensor_slice::{ShapeAndSlice, TensorSlice};

/// One or two device names, a line each: what is read can be written and read again, and names that can be merged fit
/// what they are merged into.
pub fn device_name(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut names = text.split('\n').map(str::parse::<DeviceName>);
    let Some(Ok(first)) = names.next() else { return };
    assert_eq!(first.to_string().parse::<DeviceName>().unwrap(), first);
    assert!(first.is_compatible_with(&first) && first.task_name().matches(&first) && first.matches(&first));
    let Some(Ok(second)) = names.next() else { return };
    assert_eq!(first.is_compatible_with(&second), second.is_compatible_with(&first));
    if let Ok(merged) = first.merged_with(&second, false) {
        assert!(first.matches(&merged) && second.matches(&merged), "{first} and {second} are not {merged}");
    }
    let overridden = first.overridden_by(&second);
    assert!(second.matches(&overridden), "{first} overridden by {second} is {overridden}");
    let _ = first.merged_with(&second, true);
}

/// A key: it has one spelling, which is the one that was read.
pub fn rendezvous_key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(key) = text.parse::<RendezvousKey>() else { return };
    let spelled = key.to_string();
    let again: RendezvousKey = spelled.parse().unwrap();
    assert_eq!((again.sender_text(), again.edge_name()), (key.sender_text(), key.edge_name()));
    assert_eq!((again.frame_id(), again.iteration()), (key.frame_id(), key.iteration()));
    assert_eq!((again.incarnation(), again.receiver_text()), (key.incarnation(), key.receiver_text()));
    assert!(key.is_spelled(&spelled) && again == key);
    assert_eq!(key.is_spelled(text), spelled == text, "{text} is written as {spelled}");
}

/// Slice specifications, alone and with a shape before them.
pub fn slice_spec(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(slice) = TensorSlice::parse(text) {
        assert_eq!(TensorSlice::parse(&slice.to_string()).unwrap(), slice);
    }
    if let Ok(part) = ShapeAndSlice::parse(text) {
        let region = part.slice.within(&part.full).unwrap();
        assert!(region.shape().unwrap().num_elements() <= part.full.num_elements());
    }
}
