//! The table of all comparisons, by kind of situation.

use std::fmt::{self, Display, Formatter};

use crate::compare::{Cell, Comparison, Outcome};
use crate::load::KINDS;

/// All comparisons.
#[derive(Clone, Debug, Default)]
pub struct Matrix(Vec<Comparison>);

/// Columns of the table.
const COLUMNS: [&str; 8] =
    ["expected", "advised", "missed", "needs", "named", "given", "wrong", "unlisted"];

impl Matrix {
    /// Adds a situation.
    pub fn add(&mut self, comparison: Comparison) {
        self.0.push(comparison);
    }

    /// The number of cells of the table's columns in situations of a kind, or of all.
    fn row(&self, kind: Option<&str>) -> (usize, [usize; 8]) {
        let of_kind: Vec<_> =
            self.0.iter().filter(|one| kind.is_none_or(|kind| kind == one.kind)).collect();
        let count = |outcomes: &[Outcome]| {
            let cells = of_kind.iter().flat_map(|one| &one.cells);
            cells.filter(|cell| outcomes.contains(&cell.outcome)).count()
        };
        let cells = [
            count(&[Outcome::Advised, Outcome::Missed]),
            count(&[Outcome::Advised]),
            count(&[Outcome::Missed]),
            count(&[Outcome::Named, Outcome::Unnamed]),
            count(&[Outcome::Named]),
            count(&[Outcome::Right, Outcome::Unlisted, Outcome::Wrong]),
            count(&[Outcome::Wrong]),
            count(&[Outcome::Unlisted]),
        ];
        (of_kind.len(), cells)
    }
}

/// Minimum share of expected recommendations that are given: of all situations, and of each kind.
const MIN_ADVISED: f64 = 0.75;
const MIN_ADVISED_OF_KIND: f64 = 0.5;

/// Minimum share of expected needs that are named.
const MIN_NAMED: f64 = 0.75;

impl Matrix {
    /// What does not hold: no recommendation or promise is wrong or unlisted, most expected recommendations are
    /// given, and most expected needs named.
    #[must_use]
    pub fn broken_bounds(&self) -> Vec<String> {
        let kinds = KINDS.map(|kind| (Some(kind), MIN_ADVISED_OF_KIND));
        let rows = kinds.into_iter().chain([(None, MIN_ADVISED)]);
        let mut broken = Vec::new();
        for (kind, min) in rows {
            let (_, [expected, advised, _, needs, named, _, wrong, unlisted]) = self.row(kind);
            let name = kind.unwrap_or("all");
            let is_below = |part: usize, min: f64, all: usize| (part as f64) < min * all as f64;
            if is_below(advised, min, expected) {
                broken.push(format!("{name}: {advised} of {expected} advised"));
            }
            if kind.is_none() && is_below(named, MIN_NAMED, needs) {
                broken.push(format!("{name}: {named} of {needs} needs named"));
            }
            if kind.is_some() && wrong > 0 {
                broken.push(format!("{name}: {wrong} wrong"));
            }
            if kind.is_some() && unlisted > 0 {
                broken.push(format!("{name}: {unlisted} unlisted"));
            }
        }
        broken
    }
}

impl Display for Matrix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:14}{:>11}", "", "situations")?;
        COLUMNS.iter().try_for_each(|name| write!(f, "{name:>9}"))?;
        writeln!(f)?;
        for kind in KINDS.map(Some).into_iter().chain([None]) {
            let (situations, cells) = self.row(kind);
            write!(f, "{:14}{situations:>11}", kind.unwrap_or("all"))?;
            cells.iter().try_for_each(|count| write!(f, "{count:>9}"))?;
            writeln!(f)?;
        }
        let lists = [
            ("wrong", Outcome::Wrong),
            ("missed", Outcome::Missed),
            ("not named", Outcome::Unnamed),
            ("unlisted", Outcome::Unlisted),
        ];
        for (title, outcome) in lists {
            writeln!(f, "\n{title}:")?;
            for one in &self.0 {
                let cells = one.cells.iter().filter(|cell| cell.outcome == outcome);
                for line in lines(cells) {
                    writeln!(f, "  {}: {line}", one.situation)?;
                }
            }
        }
        Ok(())
    }
}

/// Cells of a situation with one outcome, those of the same GPUs and with the same reason together.
fn lines<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<String> {
    let mut merged: Vec<Cell> = Vec::new();
    for cell in cells {
        let alike = |other: &&mut Cell| other.gpus == cell.gpus && other.why == cell.why;
        match merged.iter_mut().find(alike) {
            Some(other) => other.names.extend_from_slice(&cell.names),
            None => merged.push(cell.clone()),
        }
    }
    let line = |cell: Cell| {
        let mut line = cell.names.join(", ");
        if !cell.gpus.is_empty() {
            line += &format!(" for {}", cell.gpus.join(", "));
        }
        if !cell.why.is_empty() {
            line += &format!(": {}", cell.why);
        }
        line
    };
    merged.into_iter().map(line).collect()
}
