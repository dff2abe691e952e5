//! Distributes accounts without an owner over the groups of a bill, to the nano-dollar.

use phasemeter_meter::apportion::apportion;
use phasemeter_meter::money::NanoUsd;

use crate::payer::{Payer, Row};

/// What becomes of the parts of divided GPUs that nobody had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NobodysShare {
    /// They are an account.
    #[default]
    None,
    /// Each row of holders pays the same.
    Even,
    /// Each row of holders pays in proportion to what they were granted over time.
    ByGrant,
}

/// Spreads the idle account over groups by effective time. Returns a note if that is not possible.
pub(crate) fn spread_idle(rows: &mut [Row]) -> Option<String> {
    (!spread(rows, &Payer::Idle, |row| row.metered.effective)).then(|| {
        "no group has effective time, so idle cost without an owner is an account".to_owned()
    })
}

/// Spreads what nobody had over the rows of holders. Returns a note if there are none.
pub(crate) fn share_nobodys(rows: &mut [Row], share: NobodysShare) -> Option<String> {
    let weight = |row: &Row| match share {
        NobodysShare::None => 0,
        NobodysShare::Even => u128::from(row.metered.held > 0),
        NobodysShare::ByGrant => row.metered.granted,
    };
    let is_shared = share == NobodysShare::None || spread(rows, &Payer::Nobody, weight);
    (!is_shared).then(|| {
        match share {
            NobodysShare::ByGrant => {
                "nothing was granted to any holder, so what nobody had is an account"
            }
            _ => "no holder has GPU time, so what nobody had is an account",
        }
        .to_owned()
    })
}

/// Spreads the cost of an account over groups in proportion to their weights. Returns false if it has a cost and none
/// has a weight.
fn spread(rows: &mut [Row], account: &Payer, weight: impl Fn(&Row) -> u128) -> bool {
    let Some(index) = rows.iter().position(|row| row.payer == *account) else { return true };
    let amount = rows[index].metered.cost;
    let is_group = |row: &Row| matches!(row.payer, Payer::Group(_));
    let weights: Vec<u128> =
        rows.iter().map(|row| if is_group(row) { weight(row) } else { 0 }).collect();
    let Some(shares) = apportion(amount.0.unsigned_abs(), &weights) else {
        return amount <= NanoUsd::ZERO;
    };
    for (row, share) in rows.iter_mut().zip(shares) {
        row.idle_share += NanoUsd(share.cast_signed());
    }
    rows[index].idle_share = NanoUsd::ZERO - amount;
    true
}
