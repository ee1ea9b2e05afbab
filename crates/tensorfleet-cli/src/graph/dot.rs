//! A drawing for Graphviz: a cluster for each device, in it one for each name scope.

use std::fmt::Write;

use super::collapse::{Box, Drawing};
use super::palette;

/// Links from so many bytes on are drawn thickest.
const THICK: f64 = 6.0;

pub(super) fn render(drawing: &Drawing, title: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "digraph graph_of_tensors {{");
    let _ = writeln!(text, "  label={}; labelloc=t; rankdir=LR; newrank=true;", quoted(title));
    let _ =
        writeln!(text, "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11];");
    let _ = writeln!(text, "  edge [color=\"#8a94a6\", arrowsize=0.6];");
    if let Some(note) = &drawing.note {
        let _ = writeln!(text, "  // {}", note.replace('\n', " "));
    }
    for (device, name) in drawing.devices.iter().enumerate() {
        let mut members: Vec<usize> =
            (0..drawing.boxes.len()).filter(|&index| drawing.boxes[index].device == device).collect();
        if members.is_empty() {
            continue;
        }
        members.sort_by(|&a, &b| drawing.boxes[a].scopes.cmp(&drawing.boxes[b].scopes));
        let colours = palette::of_device(name, device);
        let _ = writeln!(text, "  subgraph cluster_{device} {{");
        let _ = writeln!(text, "    label={}; style=rounded; color=\"{}\";", quoted(name), colours.line);
        write_members(&mut text, drawing, &members, device, colours.fill);
        let _ = writeln!(text, "  }}");
    }
    for link in &drawing.links {
        let width = 1.0 + (link.volume.weight() as f64 + 1.0).log10() * (THICK - 1.0) / 8.0;
        let style = if link.tensors == 0 { ", style=dashed, arrowhead=empty" } else { "" };
        let _ = writeln!(
            text,
            "  n{} -> n{} [penwidth={:.1}, tooltip={}{style}];",
            link.from,
            link.to,
            width.min(THICK),
            quoted(&link.description())
        );
    }
    text.push_str("}\n");
    text
}

/// The boxes of a device, with clusters opened and closed as scopes begin and end.
fn write_members(text: &mut String, drawing: &Drawing, members: &[usize], device: usize, fill: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut clusters = 0;
    for &index in members {
        let b = &drawing.boxes[index];
        let common = open.iter().zip(&b.scopes).take_while(|(a, b)| a == b).count();
        while open.len() > common {
            open.pop();
            let _ = writeln!(text, "    }}");
        }
        for scope in &b.scopes[common..] {
            let _ = writeln!(
                text,
                "    subgraph cluster_{device}_{clusters} {{ label={}; style=\"rounded,dotted\";",
                quoted(scope)
            );
            clusters += 1;
            open.push(scope.clone());
        }
        write_box(text, drawing, index, b, fill);
    }
    open.iter().for_each(|_| text.push_str("    }\n"));
}

fn write_box(text: &mut String, drawing: &Drawing, index: usize, b: &Box, fill: &str) {
    let label = format!("{}\n{}", b.label, b.subtitle());
    let tooltip = b.description(&drawing.devices);
    let _ = writeln!(
        text,
        "    n{index} [label={}, tooltip={}, fillcolor=\"{fill}\"];",
        quoted(&label),
        quoted(&tooltip)
    );
}

/// A string in DOT: quotes and backslashes escaped, line breaks as `\n`, other control characters left out.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => {}
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_quotes() {
        assert_eq!(quoted("a\"b\\\n\u{7}c"), "\"a\\\"b\\\\\\nc\"");
    }
}
