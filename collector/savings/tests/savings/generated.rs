//! Any GPUs with waste, and any recommendations for them.

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::waste::WasteByCategory;
use phasemeter_savings::Savings;
use phasemeter_savings::recommendation::{Recommendation, Saving, Target};
use phasemeter_savings::waterfall::PricedGpu;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::{fraction, names};

/// A recommendation that owns its GPU IDs.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRecommendation {
    pub(crate) policy: &'static str,
    pub(crate) code: &'static str,
    pub(crate) target: Target,
    pub(crate) saving: Saving,
    pub(crate) gpus: Vec<String>,
}

impl OwnedRecommendation {
    fn borrowed(&self) -> Recommendation<'_> {
        let Self { policy, code, target, saving, ref gpus } = *self;
        let moves_work = code == "one";
        Recommendation { policy, code, target, saving, gpus, is_saving: true, moves_work }
    }
}

pub(crate) const GPUS: [&str; 3] = ["a", "b", "c"];

pub(crate) fn any_saving() -> impl Strategy<Value = Saving> {
    let percent = prop_oneof![2 => 0..=100_u32, 1 => select(vec![0, 50, 100])];
    prop::array::uniform3(percent).prop_map(|mut percents| {
        percents.sort_unstable();
        let [low, expected, high] = percents.map(|percent| fraction(f64::from(percent) / 100.0));
        Saving { low, expected, high }
    })
}

pub(crate) fn any_recommendations() -> impl Strategy<Value = Vec<OwnedRecommendation>> {
    let policy = select(vec!["x", "y"]);
    let code = select(vec!["one", "two", "three"]);
    let target = select(Target::ALL.to_vec());
    let gpus = subsequence(names(&GPUS), 1..=GPUS.len());
    let owned = (policy, code, target, any_saving(), gpus).prop_map(
        |(policy, code, target, saving, gpus)| OwnedRecommendation {
            policy,
            code,
            target,
            saving,
            gpus,
        },
    );
    prop::collection::vec(owned, 0..12)
}

/// Bills from zero to beyond a billion dollars, with any waste.
pub(crate) fn any_gpus() -> impl Strategy<Value = Vec<PricedGpu<'static>>> {
    let amount = || prop_oneof![Just(0), 0..1_000_i128, 0..1_i128 << 60];
    let gpu = (prop::array::uniform4(amount()), 0..=Rate::MAX, any::<bool>());
    prop::array::uniform3(gpu).prop_map(|gpus| {
        let gpus = GPUS.into_iter().zip(gpus).map(|(id, (parts, nanos, tensor_measured))| {
            let [starvation, idle, underload, useful] = parts.map(NanoUsd);
            let waste = WasteByCategory { starvation, idle, underload };
            let rate = Rate::new(nanos).unwrap();
            PricedGpu {
                id,
                rate,
                bill: waste.sum() + useful,
                lowest_bill: waste.sum(),
                waste,
                tensor_measured,
                committed: false,
                is_day_observed: !tensor_measured,
            }
        });
        gpus.collect()
    })
}

pub(crate) fn savings(gpus: &[PricedGpu<'_>], owned: &[OwnedRecommendation]) -> Option<Savings> {
    let recommendations: Vec<_> = owned.iter().map(OwnedRecommendation::borrowed).collect();
    Savings::of(gpus, &recommendations)
}
