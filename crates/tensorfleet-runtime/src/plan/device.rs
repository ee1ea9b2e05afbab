//! [`Device`]: a device of a session, and [`DeviceIndex`], its place in the session's list.

use std::sync::Arc;

use tensorfleet_core::DeviceName;

/// A device that nodes can be placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The full name.
    pub name: DeviceName,
    /// The full name as text, shared by all nodes placed there.
    pub text: Arc<str>,
    /// A number that tells this life of the device's task from earlier ones.
    pub incarnation: u64,
}

impl Device {
    /// A device with this full name.
    pub fn new(name: DeviceName, incarnation: u64) -> Device {
        let text = name.to_string().into();
        Device { name, text, incarnation }
    }
}

/// A device's index in the list of a session's devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DeviceIndex(u32);

impl DeviceIndex {
    /// The index into the list.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The device at `index` of the list.
    pub fn from_index(index: usize) -> DeviceIndex {
        DeviceIndex(index as u32)
    }
}
