//! A chart of points: each is a letter, explained below.

use crate::number::number;
use crate::page::{Page, SEPARATOR, Style};

const COLUMNS: usize = 56;
const LINES: usize = 10;

/// Points on two axes that begin at zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The axis to the right, with its unit.
    pub x: &'static str,
    /// The axis upward, with its unit.
    pub y: &'static str,
    /// Names and places.
    pub points: Vec<(String, f64, f64)>,
}

impl Chart {
    /// Draws the points. Those at the same place share it with the first.
    pub fn write(&self, page: &mut Page) {
        let most = |of: fn(&(String, f64, f64)) -> f64| {
            self.points.iter().map(of).fold(f64::MIN_POSITIVE, f64::max)
        };
        let (widest, highest) = (most(|point| point.1), most(|point| point.2));
        let mut grid = vec![vec![' '; COLUMNS]; LINES];
        let mut legend = Vec::new();
        for (letter, (name, x, y)) in ('A'..='Z').zip(&self.points) {
            let column = place(*x, widest, COLUMNS);
            let line = LINES - 1 - place(*y, highest, LINES);
            if let Some(cell) = grid.get_mut(line).and_then(|line| line.get_mut(column))
                && *cell == ' '
            {
                *cell = letter;
            }
            legend.push(format!("{letter} {name}"));
        }
        page.paragraph(Style::Bold, 0, &format!("{} against {}", self.y, self.x));
        for (index, line) in grid.iter().enumerate() {
            let label = if index == 0 { number(highest, 3) } else { String::new() };
            let cells: String = line.iter().collect();
            page.write(Style::Plain, &format!("  {label:>12} │{}", cells.trim_end()));
            page.end_line();
        }
        let (axis, widest) = ("─".repeat(COLUMNS - 8), number(widest, 3));
        page.write(Style::Plain, &format!("  {:>12} └{axis} {widest} {}", "0", self.x));
        page.end_line();
        page.items(Style::Plain, &legend, SEPARATOR);
    }
}

/// The cell of a value between 0 and `most`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1 × cells")]
fn place(value: f64, most: f64, cells: usize) -> usize {
    let share = (value / most).clamp(0.0, 1.0);
    (share * (cells - 1) as f64).round() as usize
}
