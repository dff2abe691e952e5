//! Where a piece of time is charged, and booked everywhere it belongs.
//!
//! This room must not know what was observed in it.

use crate::gpu::Observer;
use crate::ledger::{Accounts, Charge};
use crate::money::{NanoUsd, Rate};
use crate::pool::Stretches;
use crate::span::Spans;
use crate::tariff::{Cost, EffectiveCost, Tariff};
use crate::timeline::Piece;
use crate::units::{Nanos, Timestamp};

/// The books of one GPU.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub(crate) tariff: Option<Tariff>,
    pub(crate) accounts: Accounts,
    pub(crate) stretches: Stretches,
    pub(crate) spans: Spans,
}

impl Books {
    /// Nothing is booked yet. `rate`: what the GPU costs; `None` where nobody knows.
    pub(crate) fn new(rate: Option<Rate>, min_span: Nanos) -> Self {
        Self {
            tariff: rate.map(|rate| Tariff::new(Timestamp::EPOCH, rate)),
            accounts: Accounts::default(),
            stretches: Stretches::default(),
            spans: Spans::new(min_span),
        }
    }

    /// Charges the next piece and books it.
    pub(crate) fn enter(&mut self, piece: Piece, observer: &mut impl Observer) {
        let charge = match &mut self.tariff {
            Some(tariff) => {
                let Cost { cost, rate } = tariff.charge(piece.to);
                Charge { piece, cost, effective: EffectiveCost::of(piece.weighted, rate) }
            }
            None => Charge { piece, cost: NanoUsd::ZERO, effective: EffectiveCost::ZERO },
        };
        self.accounts.enter(&charge);
        self.stretches.enter(&charge);
        self.spans.enter(&charge, &mut |span| observer.span(span));
    }
}
