//! [`Tasks`]: which of a session's devices belong together.

use rustc_hash::FxHashMap;

use super::device::{Device, DeviceIndex};

/// Which devices belong to one task.
pub(super) struct Tasks {
    /// Per device, the first device of its task.
    first: Vec<DeviceIndex>,
}

impl Tasks {
    pub(super) fn of(devices: &[Device]) -> Tasks {
        let mut known = FxHashMap::default();
        let first = devices.iter().enumerate().map(|(index, device)| {
            let task = (device.name.job.as_deref(), device.name.replica, device.name.task);
            *known.entry(task).or_insert(DeviceIndex::from_index(index))
        });
        Tasks { first: first.collect() }
    }

    /// The first device of the device's task.
    pub(super) fn first_device(&self, device: DeviceIndex) -> DeviceIndex {
        self.first[device.index()]
    }

    /// Whether both devices belong to one task.
    pub(super) fn are_together(&self, a: DeviceIndex, b: DeviceIndex) -> bool {
        self.first_device(a) == self.first_device(b)
    }
}
