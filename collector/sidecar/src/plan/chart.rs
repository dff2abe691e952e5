//! A chart of points: each is a letter, explained below.

use phasemeter_plan::worksheet::Chart;

use crate::report::text::format::number;
use crate::report::text::layout::{Page, SEPARATOR, Style};

const COLUMNS: usize = 56;
const LINES: usize = 10;

/// Draws the points from zero on both axes. Points at the same place share it with the first.
pub(super) fn chart(page: &mut Page, chart: &Chart) {
    let most = |of: fn(&(String, f64, f64)) -> f64| {
        chart.points.iter().map(of).fold(f64::MIN_POSITIVE, f64::max)
    };
    let (widest, highest) = (most(|point| point.1), most(|point| point.2));
    let mut grid = vec![vec![' '; COLUMNS]; LINES];
    let mut legend = Vec::new();
    for (letter, (name, x, y)) in ('A'..='Z').zip(&chart.points) {
        let column = place(*x, widest, COLUMNS);
        let line = LINES - 1 - place(*y, highest, LINES);
        if let Some(cell) = grid.get_mut(line).and_then(|line| line.get_mut(column))
            && *cell == ' '
        {
            *cell = letter;
        }
        legend.push(format!("{letter} {name}"));
    }
    page.paragraph(Style::Bold, 0, &format!("{} against {}", chart.y, chart.x));
    for (index, line) in grid.iter().enumerate() {
        let label = if index == 0 { number(highest) } else { String::new() };
        let cells: String = line.iter().collect();
        page.write(Style::Plain, &format!("  {label:>12} │{}", cells.trim_end()));
        page.end_line();
    }
    let axis = format!("  {:>12} └{} {} {}", "0", "─".repeat(COLUMNS - 8), number(widest), chart.x);
    page.write(Style::Plain, &axis);
    page.end_line();
    page.items(Style::Plain, &legend, SEPARATOR);
}

/// The cell of a value between 0 and `most`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1 × cells")]
fn place(value: f64, most: f64, cells: usize) -> usize {
    let share = (value / most).clamp(0.0, 1.0);
    (share * (cells - 1) as f64).round() as usize
}
