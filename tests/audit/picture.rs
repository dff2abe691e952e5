//! Draws the beginning of a text report as SVG: the picture in README.md.

use std::fmt::Write as _;

/// Width of one column, height of one line, and the margin, in pixels.
const COLUMN: f64 = 8.4;
const LINE: f64 = 19.0;
const MARGIN: f64 = 16.0;

/// The report up to and including its first recommendation.
pub(crate) fn beginning(report: &str) -> &str {
    let first = report.find("\nTry ").map_or(0, |start| start + 1);
    let length = report[first..].find("\n\n").map_or(report.len(), |end| first + end + 1);
    &report[..length]
}

/// One text element per run of characters, each at its column, so that columns stay aligned
/// whatever the font.
pub(crate) fn svg(text: &str) -> String {
    let columns = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    let width = MARGIN * 2.0 + as_f64(columns) * COLUMN;
    let height = MARGIN * 2.0 + as_f64(text.lines().count()) * LINE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"14\">\n<style>\n\
         text {{ fill: #1f2328; white-space: pre }}\nrect {{ fill: #f6f8fa }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} rect {{ fill: #161b22 }} \
         }}\n</style>\n<rect width=\"100%\" height=\"100%\" rx=\"8\"/>\n"
    );
    for (number, line) in text.lines().enumerate() {
        let y = MARGIN + (as_f64(number) + 0.75) * LINE;
        for (column, run) in runs(line) {
            let x = MARGIN + as_f64(column) * COLUMN;
            let length = as_f64(run.chars().count()) * COLUMN;
            let run = run.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\">{run}</text>"
            );
        }
    }
    svg + "</svg>\n"
}

/// Runs of characters without two spaces in a row, each with its column.
fn runs(line: &str) -> Vec<(usize, &str)> {
    let mut runs = Vec::new();
    let mut offset = 0;
    for part in line.split("  ") {
        let run = part.trim();
        if !run.is_empty() {
            let start = offset + part.find(run).unwrap_or_default();
            runs.push((line[..start].chars().count(), run));
        }
        offset += part.len() + 2;
    }
    runs
}

fn as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
