//! `memory`: what a model needs, which GPUs it fits, and what makes it fit a smaller one.
//!
//! GB are powers of ten, as of model files; GiB are powers of two, as of GPUs.

mod fit;
mod levers;
mod model;

pub use fit::{Candidate, Fit, Fits, fit};
pub use levers::{Lever, levers};
pub use model::{Architecture, CHECKPOINTED, Job, Model, Part, total};

use crate::error::PlanError;
use crate::format::{gb, gib, percent};
use crate::units::{Ratio, Size};
use crate::worksheet::{Quantity, Worksheet};

/// The question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The model.
    pub model: Model,
    /// GPUs that it may run on.
    pub candidates: Vec<Candidate>,
    /// Part of each GPU's memory to keep free.
    pub headroom: Ratio,
    /// Whether the headroom was given.
    pub headroom_given: bool,
    /// The largest batch that fits is wanted.
    pub solve_batch: bool,
    /// Peak of a measured run of this model, if known.
    pub measured_peak: Option<Size>,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    request: Request,
    /// The parts.
    pub parts: Vec<Part>,
    /// The lowest and the highest estimate in bytes.
    pub total: (u64, u64),
    /// One entry per candidate.
    pub fits: Vec<Fit>,
    /// What would reduce the memory.
    pub levers: Vec<Lever>,
}

impl Request {
    /// Computes the memory.
    ///
    /// # Errors
    /// Returns an error if a value is missing or out of range.
    pub fn compute(self) -> Result<Memory, PlanError> {
        let fix = "give less than 100%, like 10%";
        if self.headroom >= Ratio::ONE {
            return Err(PlanError::invalid("headroom", self.headroom, "nothing is left", fix));
        }
        if let Some(Architecture { hidden, heads, kv_heads, .. }) = self.model.architecture
            && (!hidden.is_multiple_of(heads) || !heads.is_multiple_of(kv_heads))
        {
            let problem = format!("{heads} heads of {kv_heads} groups do not divide {hidden}");
            let fix = "give the heads and KV heads of the model's configuration";
            return Err(PlanError::invalid("hidden", hidden, problem, fix));
        }
        if let Some((low, high)) = self.model.activations
            && low > high
        {
            let fix = "give the lower value first";
            let value = format!("{low}-{high}");
            return Err(PlanError::invalid("activations", value, "the range is reversed", fix));
        }
        let parts = self.model.parts()?;
        let fits = self.candidates.iter();
        let fits = fits.map(|it| fit(it, &parts, self.model.batch, self.headroom)).collect();
        let levers = levers(&self.model)?;
        Ok(Memory { total: total(&parts), fits, levers, parts, request: self })
    }
}

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
        let size = |bytes| Quantity::Bytes(bytes).to_string();
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
        sheet.value("low_bytes", "", Quantity::Bytes(low));
        sheet.value("high_bytes", "", Quantity::Bytes(high));
        self.write_measured(&mut sheet);
        self.write_parts(&mut sheet);
        self.write_fits(&mut sheet);
        self.write_levers(&mut sheet);
        self.write_assumptions(&mut sheet);
        sheet
    }

    fn write_measured(&self, sheet: &mut Worksheet) {
        let missing = Quantity::Missing("no report with the memory of a run was given");
        let Some(peak) = self.request.measured_peak else {
            sheet.value("measured_peak_bytes", "", missing.clone());
            sheet.value("measured_over_high_fraction", "", missing);
            return;
        };
        let (low, high) = self.total;
        let over = peak.0 as f64 / high as f64 - 1.0;
        sheet.value("measured_peak_bytes", "Measured peak", Quantity::Bytes(peak.0));
        sheet.value("measured_over_high_fraction", "against highest", Quantity::Fraction(over));
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
            let [low, high] = [part.low, part.high].map(Quantity::Bytes);
            vec![Quantity::text(part.name), low, high]
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
        let columns = [
            ("memory_bytes", ""),
            ("memory", "memory"),
            ("fits", "fits"),
            ("left_bytes", ""),
            ("left", "left"),
            ("largest_batch", if self.request.solve_batch { "largest batch" } else { "" }),
            ("sharded_gpus", "sharded"),
            ("gpus", "GPUs"),
        ];
        let high = self.total.1;
        let rows = self.fits.iter().map(|fit| {
            let left = fit.candidate.memory.0.checked_sub(high);
            let too_small = "the highest estimate does not fit";
            let count = |count: Option<u64>, reason| {
                count.map_or(Quantity::Missing(reason), Quantity::Count)
            };
            vec![
                Quantity::Bytes(fit.candidate.memory.0),
                Quantity::text(format!("{} GiB", gib(fit.candidate.memory.0))),
                Quantity::text(fit.fits.as_str()),
                left.map_or(Quantity::Missing(too_small), Quantity::Bytes),
                left.map_or(Quantity::Missing(too_small), |left| {
                    Quantity::text(format!("{} GB", gb(left)))
                }),
                count(fit.largest_batch, "not even one sample fits"),
                count(fit.sharded, "what a batch needs does not fit one GPU"),
                Quantity::text(fit.candidate.name.clone()),
            ]
        });
        sheet.table("fits", "Fits", &columns, rows.collect());
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
                Quantity::text(lever.name),
                Quantity::Bytes(lever.high),
                Quantity::text(format!("{} GB", gb(lever.high))),
                Quantity::Fraction(saved),
                smallest.map_or(Quantity::Missing(none), Quantity::Bytes),
                smallest.map_or(Quantity::Missing(none), |it| {
                    Quantity::text(format!("{} GiB", gib(it)))
                }),
                Quantity::text(lever.cost),
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
        if let Job::Training { states, state_bits, master, .. } = model.job {
            if states > 0 && state_bits == 32 {
                sheet.assume(
                    "optimizer states are FP32 whatever the precision of the weights, as is the \
                     default of frameworks (--state-precision)",
                );
            }
            if !master && model.weight_bits < 32 {
                let size = gb(model.parameters.saturating_mul(4));
                sheet.assume(format!(
                    "the optimizer keeps no FP32 copy of the weights; --master adds {size} GB"
                ));
            }
            sheet.note(format!(
                "checkpointing leaves {} of the activations and nothing else: a total must not be \
                 multiplied by it",
                percent(CHECKPOINTED.get())
            ));
        }
        sheet.note(
            "GB are 10⁹ bytes and GiB 2³⁰: a GPU sold with 80 GB has 80 GiB, 85.9 GB. “sharded” is \
             the GPUs needed if all parts but those of the batch are divided evenly",
        );
    }
}
