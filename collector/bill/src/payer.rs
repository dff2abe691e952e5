//! Rows of a bill.

use phasemeter_meter::money::NanoUsd;

use crate::totals::Totals;

/// Who pays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Payer {
    /// A group: a value per dimension, `None` if it is unknown.
    Group(Vec<Option<String>>),
    /// The account of idle time without an owner.
    Idle,
    /// The account of unobserved time without an owner.
    Unobserved,
    /// The account of what no holder had of GPUs that were divided.
    Nobody,
}

/// One row of a bill.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Who pays.
    pub payer: Payer,
    /// What was metered.
    pub metered: Totals,
    /// The share in idle cost without an owner, and in what nobody had; negative for what is spread.
    pub idle_share: NanoUsd,
}

impl Row {
    /// Whether it is an account that others pay.
    #[must_use]
    pub fn is_spread(&self) -> bool {
        !matches!(self.payer, Payer::Group(_)) && self.idle_share != NanoUsd::ZERO
    }

    /// What is paid.
    #[must_use]
    pub fn total(&self) -> NanoUsd {
        self.metered.cost + self.idle_share
    }

    /// The same; `None` if none of its time has a price, and it has no share either.
    #[must_use]
    pub fn amount(&self) -> Option<NanoUsd> {
        let is_unknown = self.metered.has_no_price() && self.idle_share == NanoUsd::ZERO;
        (!is_unknown).then(|| self.total())
    }
}
