//! What client commands print: tables and colours for people on a terminal, JSON for programs.
//!
//! Texts of memories may come from anyone. They cannot control the terminal: control characters and marks
//! that reverse the direction of text are replaced.

use std::io::{ErrorKind, IsTerminal, Write};

use console::{Alignment, Style, pad_str, style, truncate_str};
use jiff::Timestamp;
use serde_json::Value;

use crate::failure::Failure;

/// Narrowest last column: on a narrower terminal its lines wrap.
const TEXT_WIDTH_MIN: usize = 20;
const GAP: &str = "  ";

/// Whether programs read the output.
#[derive(clap::Args)]
pub(crate) struct Format {
    /// Print JSON, as the node sent it
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Prints a text, or ends silently if its reader has ended, as in `hearth list | head`.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        written => {
            Ok(written.map_err(|error| format!("cannot write to standard output: {error}"))?)
        }
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}"))
}

/// Rows under titles. The last column takes the rest of a terminal's width.
pub(crate) struct Table {
    titles: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// A text and its style.
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: one_line(&text.into()), style }
    }

    /// A heat from 0 to 1.
    pub(crate) fn heat(heat: f64) -> Self {
        let color = match heat {
            0.8.. => Style::new().red().bold(),
            0.5.. => Style::new().red(),
            0.25.. => Style::new().yellow(),
            0.1.. => Style::new().cyan(),
            _ => Style::new().blue(),
        };
        Self::styled(format!("{heat:.2}"), color)
    }

    /// What people read after the rest.
    pub(crate) fn dim(text: impl Into<String>) -> Self {
        Self::styled(text, Style::new().dim())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::styled(text, Style::new())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Table {
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        Self { titles: titles.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<T: Into<Cell>, const N: usize>(&mut self, cells: [T; N]) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Prints the table, or `nothing` if it has no row.
    pub(crate) fn print(self, nothing: &str) -> Result<(), Failure> {
        if self.rows.is_empty() {
            return print(nothing);
        }
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| console::measure_text_width(&row[column].text));
            cells.max().unwrap_or(0).max(self.titles[column].len())
        };
        let widths: Vec<usize> = (0..self.titles.len()).map(width).collect();
        let before: usize = widths.iter().rev().skip(1).map(|width| width + GAP.len()).sum();
        let room = terminal_width().map(|width| width.saturating_sub(before).max(TEXT_WIDTH_MIN));
        let titles: Vec<Cell> = self.titles.iter().map(|title| Cell::dim(*title)).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            print(&line(row, &widths, room))?;
        }
        Ok(())
    }
}

fn line(row: &[Cell], widths: &[usize], room: Option<usize>) -> String {
    let last = row.len() - 1;
    let cell = |(column, cell): (usize, &Cell)| {
        let text = match (column == last, room) {
            (true, Some(room)) => truncate_str(&cell.text, room, "…"),
            (true, None) => cell.text.as_str().into(),
            (false, _) => pad_str(&cell.text, widths[column], Alignment::Left, None),
        };
        cell.style.apply_to(text).to_string()
    };
    let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
    cells.join(GAP).trim_end().to_owned()
}

/// Columns of the terminal; `None` if the output is none.
fn terminal_width() -> Option<usize> {
    std::io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1))
}

/// Lines of a name and a value.
pub(crate) fn print_fields(fields: &[(&str, String)]) -> Result<(), Failure> {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        let name = style(pad_str(name, width, Alignment::Left, None)).dim();
        print(&format!("{name}{GAP}{}", one_line(value)))?;
    }
    Ok(())
}

/// A text on one line, harmless to a terminal.
pub(crate) fn one_line(text: &str) -> String {
    harmless(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A text that cannot control a terminal.
pub(crate) fn harmless(text: &str) -> String {
    let replace = |c: char| match c {
        '\n' | '\t' => c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(replace).collect()
}

/// The time since `time`, as "5 min" or "3 d".
pub(crate) fn age(time: &str) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return time.to_owned() };
    let seconds = Timestamp::now().as_second().saturating_sub(time.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_control_a_terminal() {
        assert_eq!(one_line("a\u{1b}[2J\r\n  b\u{202e}c"), "a\u{fffd}[2J b\u{fffd}c");
        assert_eq!(harmless("a\n\tb\u{7}\u{9b}"), "a\n\tb\u{fffd}\u{fffd}");
    }

    #[test]
    fn columns_align_by_the_width_of_characters() {
        let row = |text: &str| vec![Cell::from(text), Cell::from("end")];
        let widths = [4, 3];
        assert_eq!(line(&row("ab"), &widths, None), "ab    end");
        assert_eq!(line(&row("京都"), &widths, None), "京都  end");
    }
}
