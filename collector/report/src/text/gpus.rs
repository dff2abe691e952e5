//! Utilization: name, bar, mean and pattern of each GPU, on one line; in large fleets, of alike GPUs.

use std::collections::BTreeSet;

use phasemeter_meter::gpu_name::{GPU, NamedGpu, gpu_names};
use phasemeter_terminal::duration;
use phasemeter_terminal::number::counted;
use phasemeter_terminal::page::{Page, Style, WIDTH};
use phasemeter_terminal::wrap::{padded, shortened, width};

use crate::bar::{Bars, Column};
use crate::model::{Gpu, Report};
use crate::value::Utc;

use super::TextOptions;
use super::axis;
use super::phases::style;

/// Maximum columns of a name, which may be a whole UUID, and of a bar; minimum columns of a bar.
const LONGEST_NAME: usize = 40;
const LONGEST_BAR: usize = 48;
const SHORTEST_BAR: usize = 12;

/// Maximum columns of a line on a terminal.
const WIDEST: usize = 240;

/// Maximum columns of a node or a pod before the index of a GPU.
pub(super) const LONGEST_NODE: usize = 14;

/// Means of alike GPUs differ by less than this, in percent.
const LEVEL: f64 = 10.0;

/// Width of `100%`.
const MEAN: usize = 4;

/// Between name, bar, mean and pattern.
const GAP: &str = "  ";

/// Maximum number of lines.
const LINES: usize = 16;

/// GPUs from which their lines leave less of a page to other parts. Of more, alike ones share a line.
const MANY: usize = 8;

/// Whether there are so many that other parts must be shorter.
pub(super) const fn has_many(gpus: &[Gpu]) -> bool {
    gpus.len() >= MANY
}

/// Whether there are so many that alike ones share a line.
pub(super) const fn share_lines(gpus: &[Gpu]) -> bool {
    gpus.len() > MANY
}

/// On a terminal, with an axis and as wide as that is.
pub(super) fn write(page: &mut Page, report: &Report, bars: &Bars<'_>, options: &TextOptions) {
    let each = options.all_gpus;
    let groups = groups(&report.gpus, each);
    let count = if each { groups.len() } else { groups.len().min(LINES) };
    let (shown, hidden) = groups.split_at(count);
    let names = names(&report.gpus);
    let label = |group: &Vec<usize>| label(&names, group);
    let labels: Vec<String> = shown.iter().map(label).collect();
    let first = |group: &Vec<usize>| group.first().and_then(|index| report.gpus.get(*index));
    let mut patterns: Vec<String> =
        shown.iter().map(|group| first(group).map(pattern_text).unwrap_or_default()).collect();
    let widest = |texts: &[String]| texts.iter().map(|text| width(text)).max().unwrap_or(0);
    let label_width = widest(&labels);
    let columns_but_pattern = label_width + MEAN + 3 * GAP.len();
    if columns_but_pattern + widest(&patterns) + SHORTEST_BAR > WIDTH {
        patterns.iter_mut().for_each(|pattern| pattern.truncate(kind(pattern).len()));
    }
    let rest = columns_but_pattern + widest(&patterns);
    let bar_width = match options.terminal {
        None => WIDTH.saturating_sub(rest).min(LONGEST_BAR),
        Some(columns) => columns.clamp(WIDTH, WIDEST).saturating_sub(rest),
    };
    for ((group, label), pattern) in shown.iter().zip(&labels).zip(&patterns) {
        let Some((index, gpu)) = group.first().copied().zip(first(group)) else { continue };
        page.write(Style::Plain, &padded(label, label_width));
        page.write(Style::Plain, GAP);
        let columns = columns(report, bars, index, gpu, bar_width);
        bar(page, &columns);
        let missing = " ".repeat(bar_width.saturating_sub(columns.len()));
        page.write(Style::Plain, &missing);
        page.write(Style::Plain, &format!("{GAP}{:>MEAN$}{GAP}{pattern}", mean(gpu)));
        page.end_line();
    }
    let axis = report.start.zip(report.end).map(|(Utc(start), Utc(end))| (start, end));
    if let Some(axis) = axis.filter(|(start, end)| options.terminal.is_some() && start < end) {
        axis::write(page, label_width + GAP.len(), axis, bar_width);
    }
    if groups.len() < report.gpus.len() {
        let hidden: usize = hidden.iter().map(Vec::len).sum();
        let hidden = if hidden > 0 { format!("{hidden} more GPUs; ") } else { String::new() };
        let note = format!("{hidden}a line shows the first of alike GPUs; --all-gpus shows each");
        page.write(Style::Dim, &note);
        page.end_line();
    }
}

/// Indexes of GPUs that share a line, the largest groups first: of one model, with the same kind of
/// pattern and about the same mean. Each GPU alone if there are few.
fn groups(gpus: &[Gpu], each: bool) -> Vec<Vec<usize>> {
    if each || !share_lines(gpus) {
        return (0..gpus.len()).map(|index| vec![index]).collect();
    }
    let kind = |gpu: &Gpu| gpu.pattern.as_ref().map(|pattern| pattern.kind);
    let level = |gpu: &Gpu| gpu.utilization.mean.map(|mean| (mean / LEVEL).round().to_bits());
    let is_alike =
        |a: &Gpu, b: &Gpu| (&a.model, kind(a), level(a)) == (&b.model, kind(b), level(b));
    let mut groups: Vec<(&Gpu, Vec<usize>)> = Vec::new();
    for (index, gpu) in gpus.iter().enumerate() {
        match groups.iter_mut().find(|(first, _)| is_alike(first, gpu)) {
            Some((_, group)) => group.push(index),
            None => groups.push((gpu, vec![index])),
        }
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
    // The order of equally large groups is that of the report.
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

/// The name of one GPU, or how many there are and the name of the first.
fn label(names: &[String], group: &[usize]) -> String {
    let first = group.first().and_then(|index| names.get(*index)).map_or("", String::as_str);
    if group.len() > 1 { format!("{} × as {first}", group.len()) } else { first.to_owned() }
}

fn columns(report: &Report, bars: &Bars<'_>, index: usize, gpu: &Gpu, count: usize) -> Vec<Column> {
    let instants = |(Utc(start), Utc(end))| (start, end);
    let span = gpu.start.zip(gpu.end).map(instants);
    let axis = report.start.zip(report.end).map(instants);
    let columns = span.zip(axis).map(|(span, axis)| bars.columns(index, span, axis, count));
    columns.unwrap_or_default()
}

/// The kind of a pattern, without its details.
fn kind(pattern: &str) -> &str {
    pattern.split(',').next().unwrap_or_default()
}

/// Writes columns of one style at once.
fn bar(page: &mut Page, columns: &[Column]) {
    for run in columns.chunk_by(|a, b| a.phase == b.phase) {
        let glyphs: String = run.iter().map(|column| column.glyph).collect();
        let phase = run.first().and_then(|column| column.phase);
        page.write(phase.map_or(Style::Dim, style), &glyphs);
    }
}

/// The displayed names of all GPUs.
pub(crate) fn names(gpus: &[Gpu]) -> Vec<String> {
    let named = gpus.iter().map(|gpu| NamedGpu {
        id: &gpu.id,
        index: gpu.index,
        node: gpu.node.as_deref(),
        pod: gpu.pod.as_deref(),
    });
    let named: Vec<_> = named.collect();
    let names = gpu_names(&named, &|text| shortened(text, LONGEST_NODE));
    names.iter().map(|name| shortened(name, LONGEST_NAME)).collect()
}

/// The displayed name of a GPU.
pub(super) fn name_of(gpus: &[Gpu], index: usize) -> String {
    names(gpus).into_iter().nth(index).unwrap_or_default()
}

/// The displayed names of the GPUs with these IDs, in report order.
pub(super) fn names_of(gpus: &[Gpu], ids: &[String]) -> Vec<String> {
    let ids: BTreeSet<&String> = ids.iter().collect();
    let named = gpus.iter().zip(names(gpus));
    named.filter(|(gpu, _)| ids.contains(&gpu.id)).map(|(_, name)| name).collect()
}

/// Maximum number of nodes, of ranges of GPUs on one, or of GPUs without an index, listed by name.
const LISTED: usize = 8;

/// The same if any name takes more columns than [`LONG`], such as a UUID.
const LISTED_IF_LONG: usize = 2;
const LONG: usize = 36;

/// The GPUs with these IDs: `GPU 0–3, 7 of 8`.
pub(super) fn which(gpus: &[Gpu], ids: &[String]) -> String {
    let all = names(gpus);
    let named = names_of(gpus, ids);
    if named.len() == all.len() && all.len() > 1 {
        return if all.len() == 2 {
            "both GPUs".to_owned()
        } else {
            format!("all {} GPUs", all.len())
        };
    }
    let text = listed(&named);
    // On several nodes, it would read as the GPUs of the last one.
    let is_of_one_node = all.iter().all(|name| name.starts_with(GPU));
    if named.len() > 1 && is_of_one_node { format!("{text} of {}", all.len()) } else { text }
}

/// The same in a column of a table: their number if their names take more than `limit` columns.
pub(super) fn which_in_column(gpus: &[Gpu], ids: &[String], limit: usize) -> String {
    let names = listed(&names_of(gpus, ids));
    if width(&names) <= limit { names } else { counted(ids.len() as u64, "GPU") }
}

/// Names, with ranges of indexes on each node.
fn listed(names: &[String]) -> String {
    let index = |name: &String| {
        let (node, index) = name.rsplit_once(GPU)?;
        Some((node.to_owned(), index.parse::<u32>().ok()?))
    };
    let Some(mut all) = names.iter().map(index).collect::<Option<Vec<_>>>() else {
        return first_of(names, names.len());
    };
    all.sort_unstable();
    let nodes = all.chunk_by(|(a, _), (b, _)| a == b).map(|node| {
        let indexes: Vec<_> = node.iter().map(|(_, index)| *index).collect();
        let ranges = indexes.chunk_by(|a, b| a.checked_add(1) == Some(*b)).map(range);
        let name = node.first().map_or("", |(name, _)| name.as_str());
        format!("{name}{GPU}{}", first_of(&ranges.collect::<Vec<_>>(), indexes.len()))
    });
    first_of(&nodes.collect::<Vec<_>>(), names.len())
}

/// The first of these parts, which are so many GPUs together.
fn first_of(parts: &[String], gpus: usize) -> String {
    let is_long = parts.iter().any(|part| width(part) > LONG);
    let most = if is_long { LISTED_IF_LONG } else { LISTED };
    match parts.get(..most) {
        Some(first) if parts.len() > most => {
            format!("{} and others, {gpus}", first.join(", "))
        }
        _ => parts.join(", "),
    }
}

fn range(indexes: &[u32]) -> String {
    match indexes {
        [] => String::new(),
        [only] => only.to_string(),
        [first, .., last] => format!("{first}–{last}"),
    }
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
        text += &format!(", {}, duty cycle {duty_cycle:.1}", duration::seconds(period.0));
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
