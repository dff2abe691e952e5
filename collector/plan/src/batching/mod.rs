//! `batching`: how long a batcher may wait, how large its batches become, and what latency results.

mod simulation;

pub use self::simulation::{Batcher, Served};

use crate::error::PlanError;
use crate::format::{number, percent, seconds};
use crate::units::{PerSecond, Span};
use crate::worksheet::{Amount, Worksheet};

/// Requests that the simulation serves.
const REQUESTS: usize = 200_000;

/// The defaults of common batchers.
pub const DEFAULT_MAX_BATCH: usize = 32;

/// The default wait, in seconds.
pub const DEFAULT_WAIT: f64 = 0.05;

/// The question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Requests per second.
    pub arrivals: PerSecond,
    /// The latency that must not be exceeded.
    pub budget: Span,
    /// Time of a batch, without its items.
    pub batch_time: Span,
    /// Additional time per item.
    pub item_time: Option<Span>,
    /// How long the batcher waits.
    pub wait: Option<Span>,
    /// The most requests in a batch.
    pub max_batch: Option<usize>,
    /// A batch size that is aimed for, if any.
    pub wanted_batch: Option<u64>,
    /// Seed of the simulation.
    pub seed: u64,
}

/// The result; times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batching {
    request: Request,
    /// The batcher.
    pub batcher: Batcher,
    /// The longest wait within the budget; `None` if a batch alone exceeds it.
    pub allowed_wait: Option<f64>,
    /// Arrivals × wait, at most a full batch.
    pub expected_batch: f64,
    /// What the simulation found.
    pub served: Served,
}

impl Request {
    /// Computes and simulates.
    ///
    /// # Errors
    /// Returns an error if one GPU cannot serve the requests.
    pub fn compute(self) -> Result<Batching, PlanError> {
        let max_batch = self.max_batch.unwrap_or(DEFAULT_MAX_BATCH);
        if !(1..=4_096).contains(&max_batch) {
            let fix = "give 1 to 4096 requests";
            return Err(PlanError::invalid("max-batch", max_batch, "not a size of batches", fix));
        }
        let batcher = Batcher {
            arrivals: self.arrivals.get(),
            wait: self.wait.map_or(DEFAULT_WAIT, Span::seconds),
            max_batch,
            batch_time: self.batch_time.seconds(),
            item_time: self.item_time.map_or(0.0, Span::seconds),
        };
        let capacity = batcher.capacity();
        if batcher.arrivals >= capacity {
            let problem = format!(
                "one GPU serves {} per second in full batches of {max_batch}",
                number(capacity)
            );
            let fix = "compute the GPUs with `plan capacity` and give the rate of one";
            return Err(PlanError::invalid("rate", self.arrivals, problem, fix));
        }
        let budget = self.budget.seconds();
        let expected_batch = (batcher.arrivals * batcher.wait).min(max_batch as f64);
        let allowed = budget - batcher.batch_time - batcher.item_time * expected_batch;
        let served = batcher.simulate(REQUESTS, self.seed, budget);
        let allowed_wait = (allowed > 0.0).then_some(allowed);
        Ok(Batching { request: self, batcher, allowed_wait, expected_batch, served })
    }
}

impl Batching {
    /// The worked result.
    #[must_use]
    pub fn worksheet(&self) -> Worksheet {
        let mut sheet = Worksheet::default();
        let Self { batcher, served, expected_batch, .. } = *self;
        let Request { arrivals, budget, batch_time, .. } = self.request;
        sheet.headline = vec![
            format!("batches of {}", number(expected_batch)),
            format!("p99 {} of {budget}", seconds(served.p99)),
        ];
        let missing = Amount::Missing("a batch alone exceeds the latency budget");
        let allowed = self.allowed_wait.map_or(missing, Amount::Seconds);
        sheet.value("allowed_wait_seconds", "Allowed wait", allowed);
        sheet.value("wait_seconds", "used", Amount::Seconds(batcher.wait));
        sheet.value("expected_batch", "", Amount::Number(expected_batch));
        let per_item = batcher.item_time * expected_batch;
        let numbers = if per_item > 0.0 {
            format!("{budget} − {batch_time} − {}", seconds(per_item))
        } else {
            format!("{budget} − {batch_time}")
        };
        let result = self.allowed_wait.map_or("none is left".to_owned(), seconds);
        sheet.formula("allowed wait", "latency budget − time of a batch", numbers, result);
        sheet.formula(
            "batch",
            "arrivals × wait, at most a full batch",
            format!("{arrivals} per second × {}", seconds(batcher.wait)),
            number(expected_batch),
        );
        if let Some(wanted) = self.request.wanted_batch {
            let wait = wanted as f64 / batcher.arrivals;
            sheet.value("wait_for_wanted_batch_seconds", "", Amount::Seconds(wait));
            sheet.formula(
                format!("wait for {wanted}"),
                "batch ÷ arrivals",
                format!("{wanted} ÷ {arrivals} per second"),
                seconds(wait),
            );
        }
        let formula_use = batcher.arrivals / expected_batch.max(1.0) * batcher.batch_time
            + batcher.arrivals * batcher.item_time;
        let columns = [
            ("quantity", ""),
            ("name", "quantity"),
            ("formula", "formula"),
            ("simulated", "simulated"),
        ];
        let row = |key: &str, name: &str, formula, simulated| {
            vec![Amount::text(key), Amount::text(name), formula, simulated]
        };
        let latency =
            batcher.wait + batcher.service(1) + batcher.item_time * (expected_batch - 1.0).max(0.0);
        let none = Amount::Missing("a formula without queues has no percentiles");
        let rows = vec![
            row(
                "batch",
                "requests per batch",
                Amount::Number(expected_batch),
                Amount::Number(served.mean_batch),
            ),
            row(
                "utilization",
                "utilization",
                Amount::Fraction(formula_use.min(1.0)),
                Amount::Fraction(served.utilization),
            ),
            row("p50_seconds", "latency p50", none.clone(), Amount::Seconds(served.p50)),
            row("p99_seconds", "latency p99", none, Amount::Seconds(served.p99)),
            row(
                "longest_seconds",
                "latency without a queue",
                Amount::Seconds(latency),
                Amount::Missing("depends on the queue"),
            ),
        ];
        sheet.table("results", "Formula and simulation", &columns, rows);
        sheet.value("late_fraction", "Above the budget", Amount::Fraction(served.late));
        sheet.assume(format!(
            "requests arrive independently of one another (Poisson); {REQUESTS} of them, seed {}",
            self.request.seed
        ));
        if self.request.wait.is_none() {
            sheet.assume("the batcher waits 50 ms, a common default (--wait)");
        }
        if self.request.max_batch.is_none() {
            sheet.assume("a batch has at most 32 requests, a common default (--max-batch)");
        }
        sheet.note(
            "the simulation counts the request that opens a batch, the formula only those that \
             follow it",
        );
        sheet.note(
            "a batcher must fail the requests of a failed batch and go on, batch equal shapes only \
             (or pad), and serve what waits when it shuts down",
        );
        if served.late > 0.01 {
            sheet.note(format!(
                "{} of the requests exceed the budget: wait less, or use more GPUs",
                percent(served.late)
            ));
        }
        sheet
    }
}
