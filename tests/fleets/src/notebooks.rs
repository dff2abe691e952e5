//! Notebooks: sessions in which a person runs something now and then, and that stay open.

use crate::draft::{Draft, Generated};
use crate::prng::Prng;
use crate::trace::{Sample, Trace};

/// Seconds between readings, and readings of an hour.
const INTERVAL: f64 = 60.0;
const HOUR: f64 = 60.0;

/// Sessions, one per GPU. How they respond is a matter of their owners' agreement.
#[derive(Clone, Debug)]
pub(crate) struct Notebooks;

/// The habits of one person.
struct Habits {
    from: f64,
    to: f64,
    /// Share of the hours of work in which the GPU is busy.
    busy: f64,
    /// Length of a cell in readings.
    cell: f64,
    memory: f64,
    /// Whether the session stays open at night.
    stays_open: bool,
    /// The day from which nothing is run any more.
    abandoned: Option<usize>,
}

impl Notebooks {
    pub(crate) fn generate(draft: Draft) -> Generated<Self> {
        let Draft { offer, mut prng, mut noise } = draft;
        let single = 1 + prng.below(6);
        let sessions = if offer.gpus == 1 { single } else { offer.gpus };
        let days = 1 + prng.below(5);
        let traces = (0..sessions).map(|_| {
            let habits = Habits::draw(&mut prng, offer.model.memory_gib);
            habits.trace(days, &mut noise)
        });
        Generated { interval: INTERVAL, traces: traces.collect(), job: Self }
    }
}

impl Habits {
    fn draw(prng: &mut Prng, total: f64) -> Self {
        Self {
            from: prng.within((7.5, 10.5)),
            to: prng.within((16.0, 20.0)),
            busy: prng.within((0.02, 0.35)),
            cell: prng.within((1.0, 8.0)),
            memory: total * prng.within((0.05, 0.6)),
            stays_open: prng.chance(0.6),
            abandoned: prng.chance(0.2).then(|| prng.below(3)),
        }
    }

    fn trace(&self, days: usize, noise: &mut Prng) -> Trace {
        let mut trace = Trace::default();
        let mut cell_left = 0.0;
        for at in 0..days * 24 * HOUR as usize {
            let hour = at as f64 / HOUR;
            let (day, of_day) = ((hour / 24.0) as usize, hour % 24.0);
            let is_there = (self.from..self.to).contains(&of_day)
                && self.abandoned.is_none_or(|from| day <= from);
            // Cells start so that they take the share of the time.
            let starts = self.busy / self.cell / (1.0 - self.busy);
            if is_there && cell_left <= 0.0 && noise.chance(starts) {
                cell_left = self.cell * noise.within((0.5, 1.5));
            }
            let runs = is_there && cell_left > 0.0;
            cell_left -= 1.0;
            let was_opened = hour >= self.from;
            let is_open = is_there || (was_opened && self.stays_open);
            let load = if runs { noise.within((0.3, 0.95)) } else { 0.0 };
            let memory_gib = if is_open { self.memory } else { 0.0 };
            trace.0.push(Sample { load, memory_gib, hangs: false });
        }
        trace
    }
}
