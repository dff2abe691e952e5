//! The memory of a model as a worksheet.

use crate::format::{count, gb, gib};
use crate::worksheet::{Amount, Worksheet};

use super::fit::{Fit, Needed};
use super::model::{Architecture, Job, Part, PartKind};
use super::sharding::{Split, Stage, divided};
use super::{Memory, Request};

/// Scales of weights below 8 bits: the least and the most, in tenths of a bit per weight. Values of NF4 with and
/// without quantized scales.
const SCALES: (u64, u64) = (1, 5);

/// Names of the stages, and how the memory of a GPU follows.
const STAGES: [&str; 3] = ["ZeRO-1", "ZeRO-2", "FSDP (ZeRO-3)"];
const STAGE_FORMULAS: [&str; 3] = [
    "optimizer ÷ GPUs + all other parts",
    "(optimizer + gradients) ÷ GPUs + all other parts",
    "(optimizer + gradients + weights) ÷ GPUs + all other parts + weights of two layers, if known",
];

impl Memory {
    /// The smallest memory of a candidate that a high estimate fits.
    fn smallest(&self, high: u64) -> Option<&Fit> {
        let fitting = self.fits.iter().filter(|fit| high <= fit.usable);
        fitting.min_by_key(|fit| fit.candidate.memory)
    }

    /// The worked result.
    #[must_use]
    pub fn worksheet(&self) -> Worksheet {
        let mut sheet = Worksheet::default();
        let (low, high) = self.total;
        let size = |bytes| Amount::Bytes(bytes).to_string();
        let range = if low == high {
            size(high)
        } else {
            format!("{}–{} GB ({}–{} GiB)", gb(low), gb(high), gib(low), gib(high))
        };
        sheet.headline = vec![
            match self.request.model.job {
                Job::Training { .. } => format!("training needs {range}"),
                Job::Inference => format!("inference needs {range}"),
            },
            self.smallest(high).map_or("fits none of these GPUs".to_owned(), |fit| {
                format!("fits {} GiB", gib(fit.candidate.memory.0))
            }),
        ];
        sheet.value("low_bytes", "", Amount::Bytes(low));
        sheet.value("high_bytes", "", Amount::Bytes(high));
        self.write_measured(&mut sheet);
        self.write_parts(&mut sheet);
        self.write_fits(&mut sheet);
        self.write_levers(&mut sheet);
        self.write_assumptions(&mut sheet);
        sheet
    }

    fn write_measured(&self, sheet: &mut Worksheet) {
        let missing = Amount::Missing("no report with the memory of a run was given");
        let Some(peak) = self.request.measured_peak else {
            sheet.value("measured_peak_bytes", "", missing.clone());
            sheet.value("measured_over_high_fraction", "", missing);
            return;
        };
        let (low, high) = self.total;
        let over = peak.0 as f64 / high as f64 - 1.0;
        sheet.value("measured_peak_bytes", "Measured peak", Amount::Bytes(peak.0));
        sheet.value("measured_over_high_fraction", "against highest", Amount::Fraction(over));
        sheet.note(if peak.0 > high {
            "the measured peak is above the highest estimate: frameworks cache freed memory, and \
             fragments cannot be used"
        } else if peak.0 < low {
            "the measured peak is below the lowest estimate: check precision and optimizer"
        } else {
            "the measured peak is within the estimate"
        });
    }

    fn write_parts(&self, sheet: &mut Worksheet) {
        let columns = [("part", "part"), ("low_bytes", "lowest"), ("high_bytes", "highest")];
        let rows = self.parts.iter().map(|part| {
            let [low, high] = [part.low, part.high].map(Amount::Bytes);
            vec![Amount::text(part.name), low, high]
        });
        sheet.table("parts", "Parts", &columns, rows.collect());
        for part in &self.parts {
            let result = if part.low == part.high {
                format!("{} GB", gb(part.high))
            } else {
                format!("{}–{} GB", gb(part.low), gb(part.high))
            };
            sheet.formula(part.name, part.symbols, part.numbers.clone(), result);
        }
        let sum = |bytes: fn(&Part) -> u64| {
            let all: Vec<_> = self.parts.iter().map(|part| gb(bytes(part))).collect();
            all.join(" + ")
        };
        let (low, high) = self.total;
        sheet.formula("lowest", "sum of the parts", sum(|it| it.low), format!("{} GB", gb(low)));
        if low != high {
            let result = format!("{} GB", gb(high));
            sheet.formula("highest", "sum of the parts", sum(|it| it.high), result);
        }
    }

    fn write_fits(&self, sheet: &mut Worksheet) {
        let needed = |fit: &Fit| columns_of(fit.needed).into_iter().map(|(_, _, value)| value);
        let names = self.fits.first().map(|fit| columns_of(fit.needed));
        let names = names.into_iter().flatten().map(|(name, heading, _)| (name, heading));
        let columns = [
            ("memory_bytes", ""),
            ("memory", "memory"),
            ("fits", "fits"),
            ("left_bytes", ""),
            ("left", "left"),
            ("largest_batch", if self.request.solve_batch { "largest batch" } else { "" }),
        ];
        let columns: Vec<_> = columns.into_iter().chain(names).chain([("gpus", "GPUs")]).collect();
        let high = self.total.1;
        let rows = self.fits.iter().map(|fit| {
            let left = fit.candidate.memory.0.checked_sub(high);
            let too_small = "the highest estimate does not fit";
            let batch = fit
                .largest_batch
                .map_or(Amount::Missing("not even one sample fits"), Amount::Count);
            let first = [
                Amount::Bytes(fit.candidate.memory.0),
                Amount::text(format!("{} GiB", gib(fit.candidate.memory.0))),
                Amount::text(fit.fits.as_str()),
                left.map_or(Amount::Missing(too_small), Amount::Bytes),
                left.map_or(Amount::Missing(too_small), |left| {
                    Amount::text(format!("{} GB", gb(left)))
                }),
                batch,
            ];
            let name = Amount::text(fit.candidate.name.clone());
            first.into_iter().chain(needed(fit)).chain([name]).collect()
        });
        sheet.table("fits", "Fits", &columns, rows.collect());
        self.write_division(sheet);
    }

    /// How the memory of each GPU follows if they divide it: on the largest of the candidates.
    fn write_division(&self, sheet: &mut Worksheet) {
        let Some(fit) = self.fits.iter().max_by_key(|fit| fit.candidate.memory) else { return };
        let Request { model, .. } = &self.request;
        match fit.needed {
            Needed::Training(needed) => {
                for ((stage, name), gpus) in Stage::ALL.into_iter().zip(STAGES).zip(needed) {
                    let Some(gpus) = gpus.filter(|gpus| *gpus > 1) else { continue };
                    let (shared, each) = divided(model, &self.parts, stage);
                    let result = shared.div_ceil(gpus).saturating_add(each);
                    sheet.formula(
                        format!("{name}, per GPU of {} GiB", gib(fit.candidate.memory.0)),
                        STAGE_FORMULAS[stage as usize],
                        format!("{} ÷ {gpus} + {}", gb(shared), gb(each)),
                        format!("{} GB of {} usable", gb(result), gb(fit.usable)),
                    );
                }
            }
            Needed::Layers { fewest: Some(split), .. } if split.gpus() > 1 => {
                let Some(Architecture { layers, kv_heads, .. }) = model.architecture else {
                    return;
                };
                let sum = |kind| {
                    let some = self.parts.iter().filter(|part| part.kind == kind);
                    some.map(|part| part.high).fold(0, u64::saturating_add)
                };
                let (weights, cache) = (sum(PartKind::Weights), sum(PartKind::Batch));
                let Split { tensor, pipeline } = split;
                let (stage, heads) = (layers.div_ceil(pipeline), kv_heads.div_ceil(tensor));
                let each = weights as f64 * stage as f64 / layers as f64 / tensor as f64
                    + cache as f64 * stage as f64 / layers as f64 * heads as f64 / kv_heads as f64;
                sheet.formula(
                    format!("per GPU of {} GiB", gib(fit.candidate.memory.0)),
                    "weights × layers of a group ÷ layers ÷ tensor + cache × layers of a group ÷ \
                     layers × KV heads of a GPU ÷ KV heads",
                    format!(
                        "{} × {stage} ÷ {layers} ÷ {tensor} + {} × {stage} ÷ {layers} × {heads} ÷ \
                         {kv_heads}",
                        gb(weights),
                        gb(cache)
                    ),
                    format!("{:.1} GB of {} usable", each / 1e9, gb(fit.usable)),
                );
            }
            Needed::Layers { .. } | Needed::Evenly(_) => {}
        }
    }

    fn write_levers(&self, sheet: &mut Worksheet) {
        let high = self.total.1;
        let columns = [
            ("lever", "lever"),
            ("high_bytes", ""),
            ("high", "needs"),
            ("saved_fraction", "saves"),
            ("smallest_memory_bytes", ""),
            ("smallest", "fits"),
            ("cost", "costs"),
        ];
        let rows = self.levers.iter().map(|lever| {
            let saved = (high - lever.high) as f64 / high as f64;
            let smallest = self.smallest(lever.high).map(|fit| fit.candidate.memory.0);
            let none = "it fits none of these GPUs";
            vec![
                Amount::text(lever.name),
                Amount::Bytes(lever.high),
                Amount::text(format!("{} GB", gb(lever.high))),
                Amount::Fraction(saved),
                smallest.map_or(Amount::Missing(none), Amount::Bytes),
                smallest
                    .map_or(Amount::Missing(none), |it| Amount::text(format!("{} GiB", gib(it)))),
                Amount::text(lever.cost),
            ]
        });
        sheet.table("levers", "To need less", &columns, rows.collect());
    }

    fn write_assumptions(&self, sheet: &mut Worksheet) {
        let Request { model, headroom, headroom_given, .. } = &self.request;
        if !headroom_given {
            sheet.assume(format!(
                "{headroom} of each GPU stays free for the driver, the CUDA context and \
                 fragmentation (--headroom)"
            ));
        }
        sheet.assume("a GPU has its nominal memory; drivers report a few percent less");
        if model.overhead.0 == 0 {
            sheet.assume("the framework needs nothing beside these parts (--overhead)");
        }
        match self.fits.first().map(|fit| fit.needed) {
            Some(Needed::Layers { .. }) => sheet.assume(
                "GPUs divide the heads of each layer (at most 8, those of a node, of equal heads) × \
                 the layers; “by heads” divides no layers. KV heads that are fewer are on several GPUs",
            ),
            Some(Needed::Evenly(_)) => sheet.assume(
                "GPUs divide weights and KV cache evenly; --layers, --hidden and --heads show which \
                 numbers of GPUs can",
            ),
            Some(Needed::Training(_)) | None => {}
        }
        if model.weight_bits < 8 {
            let [low, high] =
                [SCALES.0, SCALES.1].map(|tenths| gb(model.parameters.saturating_mul(tenths) / 80));
            sheet.assume(format!(
                "scales of {}-bit weights are not counted: 0.1 to 0.5 bits per weight, {low}–{high} GB",
                model.weight_bits
            ));
        }
        if let Some(active) = model.active_parameters {
            sheet.note(format!(
                "a token uses {} of {} parameters; all of them must be in memory",
                count(active),
                count(model.parameters)
            ));
        }
        if let Job::Training { states, state_bits, master, adapters, .. } = model.job {
            if let Some(share) = adapters {
                sheet.assume(format!(
                    "adapters have {share} of the parameters, and are trained in 16 bits or more"
                ));
            }
            if states > 0 && state_bits == 32 {
                sheet.assume(
                    "optimizer states are FP32 whatever the precision of the weights, as is the \
                     default of frameworks (--state-precision)",
                );
            }
            if !master && model.weight_bits < 32 && adapters.is_none() {
                let size = gb(model.parameters.saturating_mul(4));
                sheet.assume(format!(
                    "the optimizer keeps no FP32 copy of the weights; --master adds {size} GB"
                ));
            }
            sheet.note(
                "partial checkpointing leaves 60% of the activations, full checkpointing the inputs of \
                 layers, about 6%: a total must not be multiplied by either",
            );
            sheet.note(
                "ZeRO-1, ZeRO-2 and FSDP: GPUs needed if they divide optimizer states, gradients too, \
                 and weights too. Each has the activations of its own batch",
            );
        }
        sheet.note("GB are 10⁹ bytes and GiB 2³⁰: a GPU sold with 80 GB has 80 GiB, 85.9 GB");
    }
}

/// The columns of the GPUs needed: name, heading, value.
fn columns_of(needed: Needed) -> Vec<(&'static str, &'static str, Amount)> {
    let count = |count: Option<u64>| {
        let reason = "what each GPU must have does not fit";
        count.map_or(Amount::Missing(reason), Amount::Count)
    };
    let sizes = |split: Option<Split>| {
        split.map_or(Amount::Missing("not even one layer fits"), |Split { tensor, pipeline }| {
            Amount::text(format!("{tensor} × {pipeline}"))
        })
    };
    match needed {
        Needed::Training([one, two, three]) => vec![
            ("zero1_gpus", "ZeRO-1", count(one)),
            ("zero2_gpus", "ZeRO-2", count(two)),
            ("fsdp_gpus", "FSDP", count(three)),
        ],
        Needed::Layers { fewest, tensor } => vec![
            ("needed_gpus", "needed", count(fewest.map(Split::gpus))),
            ("tensor_by_pipeline", "as", sizes(fewest)),
            ("tensor_gpus", "by heads", count(tensor.map(Split::gpus))),
        ],
        Needed::Evenly(gpus) => vec![("needed_gpus", "needed", count(gpus))],
    }
}
