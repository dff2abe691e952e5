//! The live view: the GPUs of a run in progress as a list of which one is selected. Pure: keys in, lines out.

use std::collections::BTreeMap;

use phasemeter_terminal::page::{Page, Style};
use phasemeter_terminal::wrap::{padded, truncated};

use super::page::{bill, decimals, described, dollars, percent, title};
use super::summary::{Summary, SummaryGpu};

/// Lines above and below the list.
const OTHER_LINES: usize = 8;

/// What a user presses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Selects the GPU above.
    Up,
    /// Selects the GPU below.
    Down,
    /// Selects the first one.
    First,
    /// Selects the last one.
    Last,
    /// Sorts by the next column.
    Sort,
    /// Ends the view.
    Quit,
}

/// What the list is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sort {
    /// The order of the report.
    #[default]
    Name,
    /// The most expensive first.
    Cost,
    /// The most wasteful first.
    Waste,
    /// The least utilized first.
    Utilization,
}

/// The state of the view.
#[derive(Debug, Default)]
pub struct Screen {
    now: Option<Summary>,
    /// The utilization of each GPU since the report before, by ID.
    recent: BTreeMap<String, f64>,
    /// Why the last report is old.
    problem: Option<String>,
    /// The ID of the selected GPU.
    selected: Option<String>,
    sort: Sort,
    color: bool,
}

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::Name => Self::Cost,
            Self::Cost => Self::Waste,
            Self::Waste => Self::Utilization,
            Self::Utilization => Self::Name,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Cost => "cost",
            Self::Waste => "waste",
            Self::Utilization => "utilization",
        }
    }
}

impl Key {
    /// The keys that these bytes of a terminal are. Unknown ones are ignored.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Vec<Self> {
        let mut keys = Vec::new();
        let mut rest = bytes;
        while let [first, after @ ..] = rest {
            rest = after;
            keys.extend(match first {
                // Control-C and control-D.
                b'q' | b'Q' | 3 | 4 => Some(Self::Quit),
                b's' | b'S' => Some(Self::Sort),
                b'k' => Some(Self::Up),
                b'j' => Some(Self::Down),
                0x1b => {
                    let (key, after) = match rest {
                        [b'[' | b'O', code, after @ ..] => match code {
                            b'A' => (Some(Self::Up), after),
                            b'B' => (Some(Self::Down), after),
                            b'H' => (Some(Self::First), after),
                            b'F' => (Some(Self::Last), after),
                            _ => (None, after),
                        },
                        _ => (None, rest),
                    };
                    rest = after;
                    key
                }
                _ => None,
            });
        }
        keys
    }
}

impl Screen {
    /// A view without a report, with or without colors.
    #[must_use]
    pub fn new(color: bool) -> Self {
        Self { color, ..Self::default() }
    }

    /// Shows a newer report.
    pub fn update(&mut self, summary: Summary) {
        // Between a report and the same one again there is no time.
        let is_newer = self.now.as_ref().is_none_or(|now| now.end != summary.end);
        if is_newer {
            self.recent = self.now.as_ref().map(|now| summary.since(now)).unwrap_or_default();
            self.now = Some(summary);
        }
        self.problem = None;
    }

    /// Shows why the last report is old, beside it.
    pub fn fail(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Follows a key. Returns whether the view goes on.
    pub fn press(&mut self, key: Key) -> bool {
        let step = |screen: &mut Self, to: &dyn Fn(usize, usize) -> usize| {
            let ids: Vec<_> = screen.sorted().iter().map(|gpu| gpu.id.clone()).collect();
            let at = ids.iter().position(|id| Some(id) == screen.selected.as_ref());
            let last = ids.len().saturating_sub(1);
            // Until one is selected, the first one is shown as such.
            let at = to(at.unwrap_or_default(), last);
            screen.selected = ids.get(at.min(last)).cloned();
        };
        match key {
            Key::Up => step(self, &|at, _| at.saturating_sub(1)),
            Key::Down => step(self, &|at, _| at + 1),
            Key::First => step(self, &|_, _| 0),
            Key::Last => step(self, &|_, last| last),
            Key::Sort => self.sort = self.sort.next(),
            Key::Quit => return false,
        }
        true
    }

    /// The lines of the view, none wider than `columns`, at most `rows`; at least 3 lines of 20 columns.
    #[must_use]
    pub fn lines(&self, rows: usize, columns: usize) -> Vec<String> {
        let (rows, columns) = (rows.max(3), columns.max(20));
        let mut lines = match &self.now {
            Some(summary) => self.of_report(summary, rows, columns),
            None => vec![self.line(Style::Plain, "waiting for the first report", columns)],
        };
        if let Some(problem) = &self.problem {
            lines.push(self.line(Style::Red, problem, columns));
        }
        let keys = format!("↑↓ select  s sort: {}  q quit", self.sort.name());
        lines.truncate(rows.saturating_sub(1));
        lines.push(self.line(Style::Dim, &keys, columns));
        lines
    }

    fn of_report(&self, summary: &Summary, rows: usize, columns: usize) -> Vec<String> {
        let mut lines = vec![
            self.line(Style::Bold, &title(summary).join(" · "), columns),
            self.line(Style::Plain, &bill(summary).join(" · "), columns),
            String::new(),
            self.line(Style::Dim, &row("GPU", "now", "mean", "cost", "waste", "held by"), columns),
        ];
        let gpus = self.sorted();
        let selected = self.selected.as_ref().or(gpus.first().map(|gpu| &gpu.id));
        let at = gpus.iter().position(|gpu| Some(&gpu.id) == selected).unwrap_or_default();
        let height = rows.saturating_sub(OTHER_LINES).max(1);
        let top = at.saturating_sub(height - 1);
        let decimals = decimals(summary);
        for gpu in gpus.iter().skip(top).take(height) {
            let is_selected = Some(&gpu.id) == selected;
            let text = row(
                &format!("{} {}", if is_selected { '>' } else { ' ' }, described(gpu)),
                &percent(self.recent.get(&gpu.id).copied()),
                &percent(gpu.mean()),
                &dollars(gpu.cost_usd, decimals),
                &dollars(gpu.waste_usd, decimals),
                &gpu.held_by(),
            );
            let style = if is_selected { Style::Cyan } else { Style::Plain };
            lines.push(self.line(style, &text, columns));
        }
        if let Some(first) = summary.recommendations.first() {
            lines.push(String::new());
            let text = format!("Do first: {}. {}", first.title, first.action);
            lines.push(self.line(Style::Plain, &text, columns));
        }
        lines
    }

    /// The GPUs in the order of the list.
    fn sorted(&self) -> Vec<&SummaryGpu> {
        let mut gpus: Vec<_> = self.now.iter().flat_map(|now| &now.gpus).collect();
        match self.sort {
            Sort::Name => {}
            Sort::Cost => gpus.sort_by_key(|gpu| std::cmp::Reverse(gpu.cost())),
            Sort::Waste => gpus.sort_by_key(|gpu| std::cmp::Reverse(gpu.waste())),
            Sort::Utilization => gpus.sort_by(|a, b| {
                let recent = |gpu: &SummaryGpu| self.recent.get(&gpu.id).copied();
                let of = |gpu: &SummaryGpu| recent(gpu).or(gpu.mean()).unwrap_or(2.0);
                of(a).total_cmp(&of(b))
            }),
        }
        gpus
    }

    /// A line that fits.
    fn line(&self, style: Style, text: &str, columns: usize) -> String {
        let text = phasemeter_terminal::escape::clean(text);
        let mut page = Page::new(self.color);
        page.write(style, &truncated(&text, columns));
        page.into_text()
    }
}

/// A row of the list.
fn row(gpu: &str, now: &str, mean: &str, cost: &str, waste: &str, held_by: &str) -> String {
    let gpu = padded(&truncated(&phasemeter_terminal::escape::clean(gpu), 26), 26);
    format!("{gpu} {now:>5} {mean:>5} {cost:>11} {waste:>11}  {held_by}")
}
