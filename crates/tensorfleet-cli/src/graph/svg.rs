//! A drawing as SVG, complete in itself: lanes for devices, rounded boxes, curves as thick as what flows through them.

use std::fmt::Write;

use super::collapse::{Drawing, Link};
use super::layout::{Layout, layout};
use super::palette;
use crate::table::shortened;

const BOX_HEIGHT: f64 = 40.0;
const ROW: f64 = 58.0;
const COLUMN_GAP: f64 = 64.0;
const MIN_BOX: f64 = 84.0;
const MAX_BOX: f64 = 190.0;
const MARGIN: f64 = 24.0;
const HEADER: f64 = 74.0;
/// Width of the legend.
const LEGEND: f64 = 360.0;
const LANE_LABEL: f64 = 26.0;
const LANE_PADDING: f64 = 14.0;
const LANE_GAP: f64 = 16.0;
/// Mean width of a letter of the label's and the subtitle's font, in pixels.
const LETTER: f64 = 6.9;
const SMALL_LETTER: f64 = 5.8;
/// The thickest curve.
const MAX_STROKE: f64 = 9.0;
/// Ends of curves at one side of a box keep this distance if there is room.
const PORT: f64 = 5.0;

/// Where things are, in pixels.
struct Geometry {
    /// Left edge and width of each column.
    columns: Vec<(f64, f64)>,
    /// Top of each lane and its height.
    lanes: Vec<(f64, f64)>,
    width: f64,
    height: f64,
    layout: Layout,
}

pub(super) fn render(drawing: &Drawing, title: &str, subtitle: &str) -> String {
    let geometry = Geometry::of(drawing, title);
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let (width, height) = (geometry.width, geometry.height);
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">"
    );
    text.push_str(STYLE);
    let _ = writeln!(text, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
    let room = |size: f64| ((width - 3.0 * MARGIN - LEGEND) / size) as usize;
    let _ = writeln!(
        text,
        "<text x=\"{MARGIN}\" y=\"34\" class=\"title\">{}</text>",
        escaped(&shortened(title, room(10.0)))
    );
    let _ = writeln!(
        text,
        "<text x=\"{MARGIN}\" y=\"54\" class=\"note\">{}</text>",
        escaped(&shortened(subtitle, room(6.2)))
    );
    legend(&mut text, &geometry);
    lanes(&mut text, drawing, &geometry);
    links(&mut text, drawing, &geometry);
    boxes(&mut text, drawing, &geometry);
    if let Some(note) = &drawing.note {
        let _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{:.0}\" class=\"note\">{}</text>",
            height - 12.0,
            escaped(note)
        );
    }
    text.push_str("</svg>\n");
    text
}

const STYLE: &str = "\
<style>
.title { font-size: 18px; font-weight: bold; fill: #1f2733; }
.note { font-size: 12px; fill: #5c6675; }
.lane { font-size: 13px; font-weight: bold; }
.label { font-size: 12.5px; fill: #1f2733; text-anchor: middle; }
.small { font-size: 10.5px; fill: #5c6675; text-anchor: middle; }
.link { fill: none; stroke: #7d8899; stroke-opacity: 0.45; }
.across { stroke: #d04a72; stroke-opacity: 0.5; }
.signal { fill: none; stroke: #a9b2c0; stroke-opacity: 0.4; stroke-dasharray: 3 4; }
.link:hover, .signal:hover { stroke: #111722; stroke-opacity: 0.95; }
</style>
<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0.8 L8 4 L0 7.2 z\" fill=\"#7d8899\"/></marker></defs>
";

impl Geometry {
    fn of(drawing: &Drawing, title: &str) -> Geometry {
        let layout = layout(drawing);
        let mut widths = vec![MIN_BOX; layout.columns];
        for (b, place) in drawing.boxes.iter().zip(&layout.places) {
            let label = b.title().chars().count() as f64 * LETTER;
            let small = b.subtitle().chars().count() as f64 * SMALL_LETTER;
            widths[place.column] = widths[place.column].max(label.max(small) + 18.0).min(MAX_BOX);
        }
        let mut left = MARGIN + LANE_PADDING;
        let mut columns = Vec::new();
        for width in widths {
            columns.push((left, width));
            left += width + COLUMN_GAP;
        }
        let mut top = HEADER;
        let mut lanes = Vec::new();
        for lane in &layout.lanes {
            let height = LANE_LABEL + lane.rows as f64 * ROW + LANE_PADDING;
            lanes.push((top, height));
            top += height + LANE_GAP;
        }
        let notes = if drawing.note.is_some() { 20.0 } else { 0.0 };
        let right = columns.last().map_or(MARGIN, |(left, width)| left + width) + LANE_PADDING + MARGIN;
        let for_title = (title.chars().count() as f64 * 11.0 + 3.0 * MARGIN + LEGEND).min(1100.0);
        Geometry {
            columns,
            lanes,
            width: right.max(for_title),
            height: top + notes + MARGIN - LANE_GAP,
            layout,
        }
    }

    /// Left, top and width of a box.
    fn corner(&self, index: usize) -> (f64, f64, f64) {
        let place = self.layout.places[index];
        let (left, width) = self.columns[place.column];
        let (top, _) = self.lanes[place.lane];
        (left, top + LANE_LABEL + place.row * ROW + (ROW - BOX_HEIGHT) / 2.0, width)
    }

    fn middle(&self, index: usize) -> f64 {
        self.corner(index).1 + BOX_HEIGHT / 2.0
    }
}

/// What the lines mean, at the upper right.
fn legend(text: &mut String, geometry: &Geometry) {
    let mut left = geometry.width - MARGIN - LEGEND;
    for (class, width, words) in
        [("link", 3.0, "on one device"), ("link across", 3.0, "between devices"), ("signal", 1.0, "control")]
    {
        let _ = writeln!(
            text,
            "<path d=\"M{left:.1} 30 h26\" class=\"{class}\" stroke-width=\"{width:.0}\"/><text x=\"{:.1}\" y=\"34\" class=\"note\">{words}</text>",
            left + 32.0
        );
        left += 46.0 + words.len() as f64 * 6.4;
    }
}

fn lanes(text: &mut String, drawing: &Drawing, geometry: &Geometry) {
    for (lane, &(top, height)) in geometry.layout.lanes.iter().zip(&geometry.lanes) {
        let name = drawing.devices.get(lane.device).map_or("", String::as_str);
        let colours = palette::of_device(name, lane.device);
        let width = geometry.width - 2.0 * MARGIN;
        let _ = writeln!(
            text,
            "<rect x=\"{MARGIN}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"12\" fill=\"{}\" stroke=\"{}\" stroke-opacity=\"0.35\"/>",
            colours.lane, colours.line
        );
        let room = (width / 8.0) as usize;
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"lane\" fill=\"{}\">{}</text>",
            MARGIN + LANE_PADDING,
            top + 19.0,
            colours.line,
            escaped(&shortened(name, room))
        );
    }
}

fn boxes(text: &mut String, drawing: &Drawing, geometry: &Geometry) {
    for (index, b) in drawing.boxes.iter().enumerate() {
        let (left, top, width) = geometry.corner(index);
        let name = drawing.devices.get(b.device).map_or("", String::as_str);
        let colours = palette::of_device(name, b.device);
        let _ = writeln!(text, "<g><title>{}</title>", escaped(&b.description(&drawing.devices)));
        let _ = writeln!(
            text,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BOX_HEIGHT}\" rx=\"8\" fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"/>",
            colours.fill,
            colours.line,
            if b.variables.weight() > 0 { 2.0 } else { 1.0 }
        );
        let middle = left + width / 2.0;
        let fit = |letter: f64| ((width - 10.0) / letter) as usize;
        let _ = writeln!(
            text,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" class=\"label\">{}</text>",
            top + 17.0,
            escaped(&shortened(&b.title(), fit(LETTER)))
        );
        let _ = writeln!(
            text,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" class=\"small\">{}</text></g>",
            top + 32.0,
            escaped(&shortened(&b.subtitle(), fit(SMALL_LETTER)))
        );
    }
}

/// The curves, those with few bytes last, so that they are seen on thick ones.
fn links(text: &mut String, drawing: &Drawing, geometry: &Geometry) {
    let starts = ports(drawing, geometry, |link| link.from, |link| link.to);
    let ends = ports(drawing, geometry, |link| link.to, |link| link.from);
    let mut order: Vec<usize> = (0..drawing.links.len()).collect();
    order.sort_by_key(|&at| {
        let link = &drawing.links[at];
        (link.tensors > 0, std::cmp::Reverse(link.volume.weight()))
    });
    for at in order {
        let link = &drawing.links[at];
        let (from_left, _, from_width) = geometry.corner(link.from);
        let (to_left, _, _) = geometry.corner(link.to);
        let (x1, y1, x2, y2) = (from_left + from_width, starts[at], to_left, ends[at]);
        let path = match x2 > x1 {
            true => forward(x1, y1, x2, y2),
            false => backward(x1, y1, x2, y2),
        };
        let is_across = drawing.boxes[link.from].device != drawing.boxes[link.to].device;
        let class = match (link.tensors > 0, is_across) {
            (false, _) => "signal",
            (true, false) => "link",
            (true, true) => "link across",
        };
        let _ = writeln!(
            text,
            "<path d=\"{path}\" class=\"{class}\" stroke-width=\"{:.1}\" marker-end=\"url(#tip)\"><title>{} → {}\n{}</title></path>",
            stroke(link),
            escaped(&drawing.boxes[link.from].title()),
            escaped(&drawing.boxes[link.to].title()),
            escaped(&link.description())
        );
    }
}

/// Ten times the bytes are a bit thicker.
fn stroke(link: &Link) -> f64 {
    if link.tensors == 0 {
        return 1.0;
    }
    let bytes = link.volume.weight().max(1) as f64;
    (1.2 + (bytes.log10() - 1.0).max(0.0) * 1.3).min(MAX_STROKE)
}

/// The height at which each link meets one of its boxes: spread over the side in the order of the other ends.
fn ports(
    drawing: &Drawing,
    geometry: &Geometry,
    own: impl Fn(&Link) -> usize,
    other: impl Fn(&Link) -> usize,
) -> Vec<f64> {
    let mut at_box: Vec<Vec<usize>> = vec![Vec::new(); drawing.boxes.len()];
    for (at, link) in drawing.links.iter().enumerate() {
        at_box[own(link)].push(at);
    }
    let mut heights = vec![0.0; drawing.links.len()];
    for (index, links) in at_box.iter_mut().enumerate() {
        links.sort_by(|&a, &b| {
            let height = |at: usize| geometry.middle(other(&drawing.links[at]));
            height(a).total_cmp(&height(b))
        });
        let step = PORT.min((BOX_HEIGHT - 10.0) / links.len().max(1) as f64);
        let first = geometry.middle(index) - step * (links.len().saturating_sub(1)) as f64 / 2.0;
        for (place, &at) in links.iter().enumerate() {
            heights[at] = first + step * place as f64;
        }
    }
    heights
}

fn forward(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    let bend = ((x2 - x1) * 0.45).clamp(20.0, 160.0);
    format!("M{x1:.1} {y1:.1} C{:.1} {y1:.1} {:.1} {y2:.1} {x2:.1} {y2:.1}", x1 + bend, x2 - bend)
}

/// Out to the right, back between the rows, and in from the left.
fn backward(x1: f64, y1: f64, x2: f64, y2: f64) -> String {
    let out = COLUMN_GAP * 0.45;
    let drop = if y2 >= y1 { ROW / 2.0 } else { -ROW / 2.0 };
    let (right, left, level) = (x1 + out, x2 - out, y1 + drop);
    let middle = (x1 + x2) / 2.0;
    format!(
        "M{x1:.1} {y1:.1} C{right:.1} {y1:.1} {right:.1} {level:.1} {middle:.1} {level:.1} S{left:.1} {y2:.1} {x2:.1} {y2:.1}"
    )
}

/// Text in XML. Characters that XML cannot hold become a replacement character.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("a<b>&\"c\"\u{0}\u{ffff}"), "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}\u{fffd}");
    }

    #[test]
    fn an_empty_drawing_is_a_picture() {
        let drawing = Drawing { boxes: vec![], links: vec![], devices: vec![], note: None };
        let text = render(&drawing, "nothing", "");
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    }
}
