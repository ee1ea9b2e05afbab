//! Where the boxes of a drawing go: a lane for each device, and in it boxes from left to right in the order of the
//! computation.
//!
//! Boxes made of many nodes may depend on each other in circles. Each has the mean depth of its nodes, and only links to
//! a deeper box count for the order, so there is an order whatever the graph is. A box stands one column right of all it
//! depends on; within a column of a lane boxes stand near those they are linked with (the barycenter method).

use super::collapse::Drawing;

/// How often the order within columns is improved; later rounds change little.
const ROUNDS: usize = 6;
/// Columns in a row of the drawing: beyond that the picture is wider than screens are when zoomed to be read.
const MAX_COLUMNS: usize = 14;

/// Columns and rows for all boxes.
pub(super) struct Layout {
    /// Of each box.
    pub(super) places: Vec<Place>,
    pub(super) columns: usize,
    /// Devices that have boxes, from top to bottom, with the rows of their lanes.
    pub(super) lanes: Vec<Lane>,
}

#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) column: usize,
    /// Rows from the top of the lane, in halves of boxes, so that short columns stand in the middle.
    pub(super) row: f64,
    pub(super) lane: usize,
}

pub(super) struct Lane {
    pub(super) device: usize,
    pub(super) rows: usize,
}

pub(super) fn layout(drawing: &Drawing) -> Layout {
    let columns_of = columns(drawing);
    let columns = columns_of.iter().max().map_or(0, |last| last + 1);
    let mut devices: Vec<usize> = drawing.boxes.iter().map(|b| b.device).collect();
    devices.sort_unstable();
    devices.dedup();
    let lane_of = |device: usize| devices.binary_search(&device).unwrap_or(0);
    let mut cells: Vec<Vec<usize>> = vec![Vec::new(); devices.len() * columns];
    for (index, b) in drawing.boxes.iter().enumerate() {
        cells[lane_of(b.device) * columns + columns_of[index]].push(index);
    }
    let rows = |cells: &[Vec<usize>], lane: usize| {
        cells[lane * columns..(lane + 1) * columns].iter().map(Vec::len).max().unwrap_or(0)
    };
    let lanes: Vec<Lane> =
        devices.iter().enumerate().map(|(lane, &device)| Lane { device, rows: rows(&cells, lane) }).collect();
    let tops: Vec<f64> = lanes
        .iter()
        .scan(0.0, |top, lane| {
            let here = *top;
            *top += lane.rows as f64;
            Some(here)
        })
        .collect();
    let neighbours = neighbours(drawing);
    let mut rows_of = vec![0.0; drawing.boxes.len()];
    place_rows(&cells, columns, &lanes, &mut rows_of);
    for round in 0..ROUNDS {
        let heights: Vec<f64> = (0..drawing.boxes.len())
            .map(|index| tops[lane_of(drawing.boxes[index].device)] + rows_of[index])
            .collect();
        // The cell's boxes in the order of the mean height of their neighbours; those without keep their place.
        let wanted = |&index: &usize| match neighbours[index].as_slice() {
            [] => heights[index],
            all => all.iter().map(|&other| heights[other]).sum::<f64>() / all.len() as f64,
        };
        let in_order = |cells: &mut Vec<Vec<usize>>, cell: usize| {
            cells[cell].sort_by(|a, b| wanted(a).total_cmp(&wanted(b)));
        };
        for cell in 0..cells.len() {
            let cell = if round % 2 == 0 { cell } else { cells.len() - 1 - cell };
            in_order(&mut cells, cell);
        }
        place_rows(&cells, columns, &lanes, &mut rows_of);
    }
    let places = drawing
        .boxes
        .iter()
        .enumerate()
        .map(|(index, b)| Place { column: columns_of[index], row: rows_of[index], lane: lane_of(b.device) })
        .collect();
    Layout { places, columns, lanes }
}

/// Writes the row of each box: a column's boxes stand in the middle of their lane.
fn place_rows(cells: &[Vec<usize>], columns: usize, lanes: &[Lane], rows_of: &mut [f64]) {
    for (at, cell) in cells.iter().enumerate() {
        let lane = &lanes[at / columns.max(1)];
        let top = (lane.rows - cell.len()) as f64 / 2.0;
        for (row, &index) in cell.iter().enumerate() {
            rows_of[index] = top + row as f64;
        }
    }
}

fn neighbours(drawing: &Drawing) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); drawing.boxes.len()];
    for link in drawing.links.iter().filter(|link| link.tensors > 0) {
        neighbours[link.from].push(link.to);
        neighbours[link.to].push(link.from);
    }
    neighbours
}

/// The column of each box: right of everything it depends on, but not further left of what depends on it than it must.
fn columns(drawing: &Drawing) -> Vec<usize> {
    let count = drawing.boxes.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| drawing.boxes[a].depth.total_cmp(&drawing.boxes[b].depth).then(a.cmp(&b)));
    let mut rank = vec![0; count];
    order.iter().enumerate().for_each(|(at, &index)| rank[index] = at);
    let mut successors = vec![Vec::new(); count];
    for link in &drawing.links {
        // A box that is only told when to run does not belong behind the teller.
        if link.tensors > 0 && rank[link.from] < rank[link.to] {
            successors[link.from].push(link.to);
        }
    }
    let mut column: Vec<usize> = vec![0; count];
    for &from in &order {
        for &to in &successors[from] {
            column[to] = column[to].max(column[from] + 1);
        }
    }
    for &from in order.iter().rev() {
        if let Some(first) = successors[from].iter().map(|&to| column[to]).min() {
            column[from] = column[from].max(first.saturating_sub(1));
        }
    }
    // Very long chains are folded into the columns there are.
    let last = column.iter().copied().max().unwrap_or(0);
    if last >= MAX_COLUMNS {
        column.iter_mut().for_each(|column| *column = *column * (MAX_COLUMNS - 1) / last);
    }
    column
}

#[cfg(test)]
mod tests {
    use super::super::collapse::{Box, Link};
    use super::super::volume::Volume;
    use super::*;

    fn drawing(depths: &[f64], links: &[(usize, usize)]) -> Drawing {
        let boxes = depths.iter().map(|&depth| Box {
            label: "b".into(),
            scopes: vec![],
            device: 0,
            nodes: 1,
            op: None,
            ops: String::new(),
            variables: Volume::default(),
            depth,
        });
        let link = |&(from, to): &(usize, usize)| Link {
            from,
            to,
            tensors: 1,
            signals: 0,
            volume: Volume::default(),
        };
        Drawing {
            boxes: boxes.collect(),
            links: links.iter().map(link).collect(),
            devices: vec!["d".into()],
            note: None,
        }
    }

    #[test]
    fn boxes_stand_right_of_what_they_depend_on() {
        let layout = layout(&drawing(&[0.0, 1.0, 2.0, 0.0], &[(0, 1), (1, 2), (3, 2)]));
        let columns: Vec<usize> = layout.places.iter().map(|place| place.column).collect();
        assert_eq!(columns, [0, 1, 2, 1], "the last source stands next to its only consumer");
        assert_eq!((layout.columns, layout.lanes.len(), layout.lanes[0].rows), (3, 1, 2));
    }

    #[test]
    fn circles_have_an_order() {
        let layout = layout(&drawing(&[1.0, 1.0, 1.0], &[(0, 1), (1, 2), (2, 0), (1, 0)]));
        let columns: Vec<usize> = layout.places.iter().map(|place| place.column).collect();
        assert_eq!(columns, [0, 1, 2]);
    }

    #[test]
    fn no_two_boxes_share_a_place_and_long_chains_are_folded() {
        let count = 60;
        let depths: Vec<f64> = (0..count).map(f64::from).collect();
        let links: Vec<(usize, usize)> = (1..count as usize).map(|to| (to - 1, to)).collect();
        let layout = layout(&drawing(&depths, &links));
        assert!(layout.columns <= MAX_COLUMNS);
        for (at, place) in layout.places.iter().enumerate() {
            assert!(layout.places[..at].iter().all(|other| other != place));
        }
        assert!(super::layout(&drawing(&[], &[])).places.is_empty());
    }
}
