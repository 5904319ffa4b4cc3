//! Columns of text.

use std::io::{self, Write};

/// Writes rows below a head, each column as wide as its widest entry.
pub fn print(head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let mut widths: Vec<usize> = head.iter().map(|text| text.chars().count()).collect();
    for row in rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = (*width).max(text.chars().count());
        }
    }
    let mut out = io::stdout().lock();
    let head = head.iter().map(|text| (*text).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let cells = row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// Says that a list was not shown to its end.
pub fn more(more: bool) {
    if more {
        eprintln!("cadre: there are more: see --limit");
    }
}

/// How many entries somebody wants to see.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(limit) => Ok(limit),
        Err(_) => Err("must be a whole number of at least 1".into()),
    }
}
