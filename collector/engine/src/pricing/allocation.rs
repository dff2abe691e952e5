//! The prices of the GPUs of one model at one instant.

use phasemeter_meter::price::{Price, Unpriced};

use crate::policies::QuotedPrice;

/// The prices of the first GPUs of a model, in the order of the report, and of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    /// Each with the rank after its last GPU. Never an error.
    first: Vec<(u32, Result<Price, Unpriced>)>,
    others: Result<Price, Unpriced>,
}

/// One GPU among those of its model.
#[derive(Clone, Copy, Debug)]
pub struct GpuOfModel<'a> {
    /// The model, if known.
    pub model: Option<&'a str>,
    /// The number of GPUs of the model before it, in the order of the report.
    pub rank: u32,
    /// The number of GPUs of the model so far.
    pub gpus: u32,
}

impl Allocation {
    /// The quoted prices, and the listed one for all other GPUs.
    pub(super) fn new(quotes: Vec<QuotedPrice>, listed: Result<Price, Unpriced>) -> Self {
        let (mut first, mut end) = (Vec::new(), 0_u32);
        for QuotedPrice { price, gpus } in quotes {
            match gpus {
                Some(gpus) => {
                    end = end.saturating_add(gpus.get());
                    first.push((end, Ok(price)));
                }
                None => return Self { first, others: Ok(price) },
            }
        }
        Self { first, others: listed }
    }

    /// The price of the GPU of this rank.
    pub(super) fn price(&self, rank: u32) -> &Result<Price, Unpriced> {
        let among_first = self.first.iter().find(|(end, _)| rank < *end);
        among_first.map_or(&self.others, |(_, price)| price)
    }

    /// Whether it has a price for every GPU that has one in the other.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let priced = |of: &Self| match of.others {
            Ok(_) => u32::MAX,
            Err(_) => of.first.last().map_or(0, |(end, _)| *end),
        };
        priced(self) >= priced(other)
    }

    /// The prices of a limited number of GPUs, each with that number.
    pub(super) fn limited(&self) -> impl Iterator<Item = (u32, &Price)> {
        let ends = self.first.iter().map(|(end, _)| *end);
        let starts = std::iter::once(0).chain(ends);
        let each = starts.zip(&self.first);
        each.filter_map(|(start, (end, price))| Some((end - start, price.as_ref().ok()?)))
    }
}
