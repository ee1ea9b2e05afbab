//! Tables of text: columns as wide as they need to be, or as a terminal lets them.

use crate::terminal::{Color, Terminal};

/// Between two columns.
const GAP: &str = "  ";
/// A cell that is cut keeps at least so many characters.
const MIN_CUT: usize = 8;

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    head: String,
    is_number: bool,
    /// Columns with a smaller number are left out first if the terminal is narrow; those without stay.
    rank: Option<u8>,
    /// Whether its cells may be cut if the terminal is narrow.
    may_cut: bool,
}

impl Column {
    /// A column of words.
    pub(crate) fn text(head: &str) -> Column {
        Column { head: head.to_string(), is_number: false, rank: None, may_cut: false }
    }

    /// A column of numbers, which end below each other.
    pub(crate) fn number(head: &str) -> Column {
        Column { is_number: true, ..Column::text(head) }
    }

    /// A narrow terminal may do without it, sooner the smaller the rank.
    pub(crate) fn spare(mut self, rank: u8) -> Column {
        self.rank = Some(rank);
        self
    }

    /// A narrow terminal may show only a part of each cell.
    pub(crate) fn cut(mut self) -> Column {
        self.may_cut = true;
        self
    }
}

/// A table that is being filled.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<(String, Option<Color>)>>,
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Table {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row, which has a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| (cell, None)).collect());
    }

    /// Gives a cell of the last row a colour.
    pub(crate) fn colour(&mut self, column: usize, colour: Color) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.get_mut(column)) {
            cell.1 = Some(colour);
        }
    }

    /// The table as text, within the terminal's width if it is one.
    pub(crate) fn render(&self, terminal: &Terminal) -> String {
        let (shown, widths) = self.fit(terminal.width().unwrap_or(usize::MAX));
        let mut text = String::new();
        let heads = self.columns.iter().map(|column| (column.head.clone(), Some(Color::Head))).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for &at in &shown {
                if !line.is_empty() {
                    line.push_str(GAP);
                }
                let (cell, colour) =
                    row.get(at).map_or(("", None), |(cell, colour)| (cell.as_str(), *colour));
                let is_last = shown.last() == Some(&at);
                line.push_str(&self.cell(at, cell, widths[at], is_last, colour, terminal));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn cell(
        &self,
        column: usize,
        text: &str,
        width: usize,
        is_last: bool,
        colour: Option<Color>,
        terminal: &Terminal,
    ) -> String {
        let text = shortened(text, width);
        let padding = " ".repeat(width.saturating_sub(text.chars().count()));
        let painted = colour.map_or_else(|| text.clone(), |colour| terminal.paint(colour, &text));
        match (self.columns[column].is_number, is_last) {
            (true, _) => format!("{padding}{painted}"),
            (false, true) => painted,
            (false, false) => format!("{painted}{padding}"),
        }
    }

    /// Which columns are shown, and the width of each.
    fn fit(&self, width: usize) -> (Vec<usize>, Vec<usize>) {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.head.chars().count()).collect();
        for row in &self.rows {
            for (width, (cell, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let needed = |shown: &[usize], widths: &[usize]| {
            shown.iter().map(|&at| widths[at]).sum::<usize>() + GAP.len() * shown.len().saturating_sub(1)
        };
        while needed(&shown, &widths) > width {
            let ranked = shown.iter().filter_map(|&at| Some((self.columns[at].rank?, at)));
            let Some((_, spare)) = ranked.min() else { break };
            shown.retain(|&at| at != spare);
        }
        // What is still too wide is taken from the widest columns that may be cut, so that all keep as much as they can.
        while needed(&shown, &widths) > width {
            let cuttable = shown.iter().filter(|&&at| self.columns[at].may_cut && widths[at] > MIN_CUT);
            let Some(&widest) = cuttable.max_by_key(|&&at| widths[at]) else { break };
            let next = shown
                .iter()
                .filter(|&&at| self.columns[at].may_cut && at != widest)
                .map(|&at| widths[at])
                .max();
            let excess = needed(&shown, &widths) - width;
            // Down to the next widest at once, then one by one.
            let step = excess.min(widths[widest].saturating_sub(next.unwrap_or(0).max(MIN_CUT))).max(1);
            widths[widest] -= step;
        }
        (shown, widths)
    }
}

/// The text in at most `width` characters; a mark tells that something is missing in its middle, because names differ at
/// their ends.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let len = text.chars().count();
    if len <= width {
        return text.to_string();
    }
    let kept = width.saturating_sub(1);
    let (front, back) = (kept / 2, kept - kept / 2);
    let start: String = text.chars().take(front).collect();
    let end: String = text.chars().skip(len - back).collect();
    format!("{start}…{end}")
}

/// A line cut into some of at most `width` characters, at blanks where there are some.
pub(crate) fn wrapped(text: &str, width: Option<usize>, indent: &str) -> String {
    let Some(width) = width else { return format!("{text}\n") };
    let words = text.trim_start();
    let mut lines = String::new();
    let mut line = String::new();
    for word in words.split(' ') {
        if line.is_empty() {
            line.push_str(&text[..text.len() - words.len()]);
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(&line);
            lines.push('\n');
            line = format!("{indent}{word}");
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    format!("{lines}{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Colors;

    fn table() -> Table {
        let columns = [
            Column::text("NAME").cut(),
            Column::text("KIND").spare(2),
            Column::number("BYTES"),
            Column::text("NOTE").spare(1),
        ];
        let mut table = Table::new(columns);
        table.row(["layer/weights", "float", "12", "first"].map(String::from));
        table.row(["b", "int64", "1,000", ""].map(String::from));
        table
    }

    fn at_width(width: usize) -> String {
        table().render(&Terminal { size: Some((width, 24)), colors: Colors::Off })
    }

    #[test]
    fn words_begin_and_numbers_end_below_each_other() {
        let text = table().render(&Terminal::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "NAME           KIND   BYTES  NOTE");
        assert_eq!(lines[1], "layer/weights  float     12  first");
        assert_eq!(lines[2], "b              int64  1,000");
    }

    #[test]
    fn narrow_terminals_lose_columns_by_rank_and_then_parts_of_cells() {
        assert_eq!(at_width(80).lines().next(), Some("NAME           KIND   BYTES  NOTE"));
        assert_eq!(at_width(30).lines().next(), Some("NAME           KIND   BYTES"));
        assert_eq!(at_width(22).lines().next(), Some("NAME           BYTES"));
        assert_eq!(at_width(17).lines().nth(1), Some("laye…ights     12"));
        assert!(at_width(17).lines().all(|line| line.chars().count() <= 17));
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let mut table = table();
        table.colour(1, Color::Good);
        let text = table.render(&Terminal { size: None, colors: Colors::On });
        assert!(text.contains("\x1b[32mint64\x1b[0m  1,000"), "{text}");
    }

    #[test]
    fn long_sentences_are_broken_at_blanks() {
        assert_eq!(wrapped("one two three", Some(8), "  "), "one two\n  three\n");
        assert_eq!(wrapped(" one two three", Some(9), "  "), " one two\n  three\n");
        assert_eq!(wrapped("one two three", None, "  "), "one two three\n");
        assert_eq!(wrapped("", Some(8), "  "), "\n");
    }
}
