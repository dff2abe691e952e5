//! The amounts of a bill in whole cents, as text has them: rows and columns add up.

use phasemeter_meter::money::NanoUsd;
use phasemeter_terminal::printed::{CENT, parts, parts_with, rounded};

use crate::bill::{Bill, Payer, Row};
use crate::invoice::Reconciliation;

/// The amounts of a bill in cents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedBill {
    /// One entry per row.
    pub rows: Vec<PrintedRow>,
    /// The sum of what was metered, and of the totals.
    pub all: i128,
    /// Utilized, waste and unobserved, which sum to it.
    pub used: [i128; 3],
}

/// The amounts of a row in cents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintedRow {
    /// What was metered.
    pub metered: i128,
    /// The share in idle cost.
    pub idle_share: i128,
}

/// The amounts of an invoice in cents: total, billed, and their difference.
pub type PrintedLine = [i128; 3];

impl PrintedRow {
    /// What is paid.
    #[must_use]
    pub const fn total(&self) -> i128 {
        self.metered + self.idle_share
    }
}

impl PrintedBill {
    /// The amounts of a bill.
    #[must_use]
    pub fn of(bill: &Bill) -> Self {
        let sum = &bill.sum;
        let all = rounded(sum.cost, CENT);
        let used = [sum.utilized, sum.waste(), sum.unobserved];
        let used = parts(all, &used, CENT);
        let used = [0, 1, 2].map(|index| used.get(index).copied().unwrap_or_default());
        // If all unobserved time has no owner, its row is the same amount.
        let [.., unobserved] = used;
        let known =
            |amount| (amount == sum.unobserved && amount != NanoUsd::ZERO).then_some(unobserved);
        let metered: Vec<NanoUsd> = bill.rows.iter().map(|row| row.metered.cost).collect();
        let metered = parts_with(all, &metered, CENT, known);
        let spread = bill.rows.iter().zip(&metered).filter(|(row, _)| row.is_spread());
        let spread: i128 = spread.map(|(_, cents)| *cents).sum();
        let share_of = |row: &Row| if row.is_spread() { NanoUsd::ZERO } else { row.idle_share };
        let shares: Vec<NanoUsd> = bill.rows.iter().map(share_of).collect();
        let shares = parts(spread, &shares, CENT);
        let rows = bill.rows.iter().zip(metered.into_iter().zip(shares));
        let rows = rows.map(|(row, (metered, share))| PrintedRow {
            metered,
            idle_share: if row.is_spread() { -metered } else { share },
        });
        let rows = rows.collect();
        Self { rows, all, used }
    }

    /// The lines of an invoice beside this bill, and their sum.
    #[must_use]
    pub fn lines(&self, bill: &Bill, invoice: &Reconciliation) -> (Vec<PrintedLine>, PrintedLine) {
        let total_of = |payer: &Payer| {
            let row = bill.rows.iter().position(|row| row.payer == *payer);
            row.and_then(|row| self.rows.get(row)).map_or(0, PrintedRow::total)
        };
        let billed: Vec<NanoUsd> =
            invoice.lines.iter().map(|line| line.billed.unwrap_or_default()).collect();
        let all = rounded(billed.iter().copied().sum(), CENT);
        let billed = parts(all, &billed, CENT);
        let line = |total: i128, billed: i128| [total, billed, billed - total];
        let lines: Vec<PrintedLine> = invoice
            .lines
            .iter()
            .zip(billed)
            .map(|(it, billed)| line(it.total.map_or(0, |_| total_of(&it.payer)), billed))
            .collect();
        let total = lines.iter().map(|[total, ..]| total).sum();
        (lines, line(total, all))
    }
}
