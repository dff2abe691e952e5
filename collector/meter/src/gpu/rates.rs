//! The rate of a GPU and its changes.

use super::GpuMeter;
use super::rolling::RollingWindow;
use crate::accrual::{AlreadyCharged, RateChangeError};
use crate::money::{NanoUsd, Rate};
use crate::units::Timestamp;

impl GpuMeter {
    /// Changes the rate from `at` on.
    ///
    /// # Errors
    /// Returns an error if time after `at` has been charged, or the GPU is unpriced.
    pub fn change_rate(&mut self, at: Timestamp, rate: Rate) -> Result<(), RateChangeError> {
        let accrual = self.ledger.accrual.as_mut().ok_or(RateChangeError::Unpriced)?;
        Ok(accrual.change_rate(at, rate)?)
    }

    /// Prices an unpriced GPU from its first reading on: all accounts, waste categories and later
    /// spans have the cost that they would have if the rate had been known, but for the rounding of
    /// single accounts. Spans that were emitted remain without cost.
    ///
    /// # Errors
    /// Returns an error if the GPU is priced, or a session or a part has ended without a price.
    pub fn price_from_start(&mut self, rate: Rate) -> Result<(), RateChangeError> {
        if self.ledger.accrual.is_some() {
            return Err(RateChangeError::Priced);
        }
        let has_part =
            self.parts.as_ref().is_some_and(|parts| !parts.base.totals.accounts.is_empty());
        if has_part || self.window.as_ref().is_some_and(RollingWindow::has_snapshots) {
            return Err(RateChangeError::SessionEnded);
        }
        self.ledger.price_from(self.start.unwrap_or(Timestamp::EPOCH), rate);
        Ok(())
    }

    /// Prices an unpriced GPU from `at` on. Earlier time has no cost.
    ///
    /// # Errors
    /// Returns an error if the GPU is priced, or time after `at` has been charged.
    pub fn price_from(&mut self, at: Timestamp, rate: Rate) -> Result<(), RateChangeError> {
        if self.ledger.accrual.is_some() {
            return Err(RateChangeError::Priced);
        }
        if let Some(charged) = self.charged_until().filter(|charged| at < *charged) {
            return Err(AlreadyCharged { at, charged }.into());
        }
        self.ledger.price_from(self.start.unwrap_or(Timestamp::EPOCH), Rate::ZERO);
        self.change_rate(at, rate)
    }

    /// Bills nothing for the time `from`..`to`, which lies before the next reading: another meter has
    /// billed it, or may have. Returns the start of the time that is exempt, which is later than `from`
    /// if that has been charged. It must follow all changes of the rate up to `to`.
    pub fn exempt(&mut self, from: Timestamp, to: Timestamp) -> Timestamp {
        let accrual = self.ledger.accrual.as_mut();
        accrual.map_or(from, |accrual| accrual.exempt(from, to))
    }

    /// What all charges have cost that observers have received: all that the GPU cost, or what its holders pay.
    #[must_use]
    pub fn charged(&self) -> NanoUsd {
        self.ledger.charged()
    }

    /// The instant up to which time is charged; `None` before the first reading is ingested.
    #[must_use]
    pub fn charged_until(&self) -> Option<Timestamp> {
        self.start.map(|start| start + self.ledger.accounts.all().time)
    }
}
