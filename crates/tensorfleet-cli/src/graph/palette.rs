//! Colours of devices: parameter servers in warm ones, workers in cold ones, so that a picture can be read without its
//! legend.

pub(super) struct Colours {
    /// Of a box.
    pub(super) fill: &'static str,
    /// Of its border.
    pub(super) line: &'static str,
    /// Of the lane behind it.
    pub(super) lane: &'static str,
}

const fn colours(fill: &'static str, line: &'static str, lane: &'static str) -> Colours {
    Colours { fill, line, lane }
}

const WARM: [Colours; 3] = [
    colours("#ffe3c2", "#d9822b", "#fff8f0"),
    colours("#ffd6cc", "#c9523a", "#fff5f2"),
    colours("#fbeaa8", "#b38600", "#fffbea"),
];
const COLD: [Colours; 4] = [
    colours("#d6e6fb", "#3b78c4", "#f3f8fe"),
    colours("#cfeee4", "#1f8a6d", "#f0faf7"),
    colours("#e3dcf7", "#6f56b5", "#f7f5fd"),
    colours("#d3eff5", "#20839b", "#f1fafc"),
];
const PLAIN: Colours = colours("#e8ebf0", "#7a8699", "#f7f8fa");

/// The colours of a device, by its name and its number in the drawing.
pub(super) fn of_device(name: &str, number: usize) -> &'static Colours {
    if name.starts_with("/job:ps") {
        return &WARM[number % WARM.len()];
    }
    if !name.starts_with('/') {
        return &PLAIN;
    }
    &COLD[number % COLD.len()]
}
