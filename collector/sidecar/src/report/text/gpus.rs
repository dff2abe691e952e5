//! A line a GPU: its name, its bar, its mean, and how its utilization moves.
//!
//! This room must not know of money.

use crate::report::bar::{Bars, Column};
use crate::report::{Gpu, Report, Utc};

use super::layout::{Page, Style, WIDTH, padded, shortened, width};
use super::words;

/// Columns of the longest name, and of the longest bar.
const LONGEST_NAME: usize = 20;
const LONGEST_BAR: usize = 48;

/// `100 %`.
const MEAN: usize = 5;

/// Between name, bar, mean and movement.
const GAP: &str = "  ";

pub(super) fn write(page: &mut Page, report: &Report, bars: &Bars<'_>) {
    let names = names(&report.gpus);
    let movements: Vec<String> = report.gpus.iter().map(movement).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| width(text)).max().unwrap_or(0);
    let (name_width, movement_width) = (widest(&names), widest(&movements));
    let rest = name_width + MEAN + movement_width + 3 * GAP.len();
    let bar_width = WIDTH.saturating_sub(rest).min(LONGEST_BAR);
    for (place, ((gpu, name), movement)) in
        report.gpus.iter().zip(&names).zip(&movements).enumerate()
    {
        page.write(Style::Plain, &padded(name, name_width));
        page.write(Style::Plain, GAP);
        let columns = columns(report, bars, place, gpu, bar_width);
        bar(page, &columns);
        let missing = " ".repeat(bar_width.saturating_sub(columns.len()));
        page.write(Style::Plain, &missing);
        page.write(Style::Plain, &format!("{GAP}{:>MEAN$}{GAP}{movement}", mean(gpu)));
        page.end_line();
    }
}

fn columns(report: &Report, bars: &Bars<'_>, place: usize, gpu: &Gpu, count: usize) -> Vec<Column> {
    let instants = |(Utc(start), Utc(end))| (start, end);
    let span = gpu.start.zip(gpu.end).map(instants);
    let axis = report.start.zip(report.end).map(instants);
    let columns = span.zip(axis).map(|(span, axis)| bars.columns(place, span, axis, count));
    columns.unwrap_or_default()
}

/// Columns of one look are written at once.
fn bar(page: &mut Page, columns: &[Column]) {
    for run in columns.chunk_by(|a, b| a.phase == b.phase) {
        let glyphs: String = run.iter().map(|column| column.glyph).collect();
        let phase = run.first().and_then(|column| column.phase);
        page.write(phase.map_or(Style::Dim, Style::Phase), &glyphs);
    }
}

/// By index where each has its own, else by name.
fn names(gpus: &[Gpu]) -> Vec<String> {
    let mut indexes: Vec<_> = gpus.iter().filter_map(|gpu| gpu.index).collect();
    indexes.sort_unstable();
    indexes.dedup();
    let distinct = indexes.len() == gpus.len();
    gpus.iter().map(|gpu| name(gpu, distinct)).collect()
}

fn name(gpu: &Gpu, by_index: bool) -> String {
    match gpu.index {
        Some(index) if by_index => format!("GPU {index}"),
        _ => shortened(&gpu.gpu, LONGEST_NAME),
    }
}

/// The name of a GPU as its line begins.
pub(super) fn name_of(gpus: &[Gpu], place: usize) -> String {
    names(gpus).into_iter().nth(place).unwrap_or_default()
}

/// The names of these GPUs as their lines begin, in the order of the lines.
pub(super) fn names_of(gpus: &[Gpu], ids: &[String]) -> Vec<String> {
    let named = gpus.iter().zip(names(gpus));
    named.filter(|(gpu, _)| ids.contains(&gpu.gpu)).map(|(_, name)| name).collect()
}

/// What others wrote, with the GPUs in it called as their lines begin. Ids that are mere numbers
/// may be numbers.
pub(super) fn by_name(gpus: &[Gpu], text: &str) -> String {
    let named = gpus.iter().zip(names(gpus));
    let ids = named.filter(|(gpu, _)| gpu.gpu.bytes().any(|byte| !byte.is_ascii_digit()));
    ids.fold(text.to_owned(), |text, (gpu, name)| text.replace(&gpu.gpu, &name))
}

fn mean(gpu: &Gpu) -> String {
    match gpu.utilization.mean {
        None => "–".to_owned(),
        Some(mean) if mean > 0.0 && mean < 0.5 => "<1 %".to_owned(),
        Some(mean) => format!("{mean:.0} %"),
    }
}

fn movement(gpu: &Gpu) -> String {
    if gpu.utilization.mean.is_none() {
        return "unobserved".to_owned();
    }
    let Some(pattern) = &gpu.pattern else { return "too short to tell".to_owned() };
    let mut words = pattern.kind.to_owned();
    if let (Some(period), Some(duty)) = (pattern.period_seconds, pattern.duty) {
        words += &format!(", {}, duty {duty:.1}", words::seconds(period.0));
    }
    if pattern.kind == "idle"
        && let Some((held, free)) = gpu.phases.idle_held.zip(gpu.phases.idle_free)
    {
        words += if held.seconds > free.seconds { ", held" } else { ", free" };
    }
    words
}
