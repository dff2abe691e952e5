//! One line per GPU: name, bar, mean and pattern of utilization.
//!
//! Must not depend on cost.

use crate::report::bar::{Bars, Column};
use crate::report::model::{Gpu, Report};
use crate::report::value::Utc;

use super::format;
use super::layout::{Page, Style, WIDTH, padded, shortened, width};

/// Maximum columns of a name and of a bar.
const LONGEST_NAME: usize = 20;
const LONGEST_BAR: usize = 48;

/// Width of `100%`.
const MEAN: usize = 4;

/// Between name, bar, mean and pattern.
const GAP: &str = "  ";

pub(super) fn write(page: &mut Page, report: &Report, bars: &Bars<'_>) {
    let names = names(&report.gpus);
    let patterns: Vec<String> = report.gpus.iter().map(pattern_text).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| width(text)).max().unwrap_or(0);
    let (name_width, pattern_width) = (widest(&names), widest(&patterns));
    let rest = name_width + MEAN + pattern_width + 3 * GAP.len();
    let bar_width = WIDTH.saturating_sub(rest).min(LONGEST_BAR);
    for (index, ((gpu, name), pattern)) in report.gpus.iter().zip(&names).zip(&patterns).enumerate()
    {
        page.write(Style::Plain, &padded(name, name_width));
        page.write(Style::Plain, GAP);
        let columns = columns(report, bars, index, gpu, bar_width);
        bar(page, &columns);
        let missing = " ".repeat(bar_width.saturating_sub(columns.len()));
        page.write(Style::Plain, &missing);
        page.write(Style::Plain, &format!("{GAP}{:>MEAN$}{GAP}{pattern}", mean(gpu)));
        page.end_line();
    }
}

fn columns(report: &Report, bars: &Bars<'_>, index: usize, gpu: &Gpu, count: usize) -> Vec<Column> {
    let instants = |(Utc(start), Utc(end))| (start, end);
    let span = gpu.start.zip(gpu.end).map(instants);
    let axis = report.start.zip(report.end).map(instants);
    let columns = span.zip(axis).map(|(span, axis)| bars.columns(index, span, axis, count));
    columns.unwrap_or_default()
}

/// Writes columns of one style at once.
fn bar(page: &mut Page, columns: &[Column]) {
    for run in columns.chunk_by(|a, b| a.phase == b.phase) {
        let glyphs: String = run.iter().map(|column| column.glyph).collect();
        let phase = run.first().and_then(|column| column.phase);
        page.write(phase.map_or(Style::Dim, Style::Phase), &glyphs);
    }
}

/// By index if all have distinct ones, else by ID.
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
        _ => shortened(&gpu.id, LONGEST_NAME),
    }
}

/// The displayed name of a GPU.
pub(super) fn name_of(gpus: &[Gpu], index: usize) -> String {
    names(gpus).into_iter().nth(index).unwrap_or_default()
}

/// The displayed names of the GPUs with these IDs, in report order.
pub(super) fn names_of(gpus: &[Gpu], ids: &[String]) -> Vec<String> {
    let named = gpus.iter().zip(names(gpus));
    named.filter(|(gpu, _)| ids.contains(&gpu.id)).map(|(_, name)| name).collect()
}

/// Text of policies with GPU IDs replaced by displayed names. Numeric IDs are left: they may be other
/// numbers.
pub(super) fn by_name(gpus: &[Gpu], text: &str) -> String {
    let named = gpus.iter().zip(names(gpus));
    let ids = named.filter(|(gpu, _)| gpu.id.bytes().any(|byte| !byte.is_ascii_digit()));
    ids.fold(text.to_owned(), |text, (gpu, name)| text.replace(&gpu.id, &name))
}

fn mean(gpu: &Gpu) -> String {
    match gpu.utilization.mean {
        None => "–".to_owned(),
        Some(mean) if mean > 0.0 && mean < 0.5 => "<1%".to_owned(),
        Some(mean) => format!("{mean:.0}%"),
    }
}

fn pattern_text(gpu: &Gpu) -> String {
    if gpu.utilization.mean.is_none() {
        return "unobserved".to_owned();
    }
    let Some(pattern) = &gpu.pattern else { return "not enough data".to_owned() };
    let mut text = pattern.kind.to_owned();
    if let (Some(period), Some(duty_cycle)) = (pattern.period_seconds, pattern.duty_cycle) {
        text += &format!(", {}, duty cycle {duty_cycle:.1}", format::seconds(period.0));
    }
    if pattern.kind == "idle"
        && let Some((held, free)) = gpu.phases.idle_held.zip(gpu.phases.idle_free)
    {
        let longest = held.seconds.max(free.seconds);
        if longest >= gpu.phases.idle_unknown.seconds {
            text += if longest == free.seconds { ", free" } else { ", held" };
        }
    }
    text
}
