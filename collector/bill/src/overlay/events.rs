//! Events of the Chrome trace format: a process with a thread and a counter for each GPU.
//!
//! Each event ends with a comma: those of the profile follow.

use std::io::{self, Write};

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};
use serde_json::json;

use super::profile::Profile;
use super::slices::Slice;

/// Writes events.
pub(super) struct Events<W> {
    out: W,
    /// What times count from, in nanoseconds since 1970.
    base: u64,
    /// The process of all tracks.
    pid: u64,
    /// The thread of the GPU before.
    tid: u64,
}

/// A number of nanoseconds in microseconds, with three decimals as the profiler writes them. Exact.
fn micros(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    format!("{sign}{}.{:03}", nanos / 1_000, nanos % 1_000)
}

impl<W: Write> Events<W> {
    /// Of tracks in this profile.
    pub(super) fn new(out: W, profile: &Profile) -> Self {
        let (base, pid) = (profile.base, profile.free_id);
        Self { out, base, pid, tid: pid }
    }

    /// Names the process, and puts it above the others.
    pub(super) fn process(&mut self, title: &str) -> io::Result<()> {
        let pid = self.pid;
        let name = format!("Phasemeter: {title}");
        for (event, args) in [
            ("process_name", json!({"name": name})),
            ("process_sort_index", json!({"sort_index": -1})),
        ] {
            write!(
                self.out,
                r#"{{"ph":"M","name":"{event}","pid":{pid},"tid":{pid},"args":{args}}},"#
            )?;
        }
        Ok(())
    }

    /// The tracks of a GPU. Its phases are those of steps of this length.
    pub(super) fn gpu(
        &mut self,
        name: &str,
        step: Option<Nanos>,
        slices: &[Slice],
    ) -> io::Result<()> {
        self.tid += 1;
        let (pid, tid) = (self.pid, self.tid);
        let steps = step.map(|step| format!(", phase of each {} s", step.as_secs_f64()));
        let thread = json!({"name": format!("{name}{}", steps.unwrap_or_default())});
        let index = json!({"sort_index": tid - pid});
        for (event, args) in [("thread_name", thread), ("thread_sort_index", index)] {
            write!(
                self.out,
                r#"{{"ph":"M","name":"{event}","pid":{pid},"tid":{tid},"args":{args}}},"#
            )?;
        }
        let counter = json!(format!("{name} cost"));
        let mut sum = NanoUsd::ZERO;
        for (index, slice) in slices.iter().enumerate() {
            let [ts, dur] = [self.ts(slice.span.0), micros(i128::from(slice.length().0))];
            let state = slice.state.name();
            write!(
                self.out,
                r#"{{"ph":"X","cat":"phasemeter","name":"{state}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"#
            )?;
            let percent =
                slice.percent.map(|percent| format!(r#""utilization_percent":{percent:.1}"#));
            let cost = slice.cost.map(|cost| format!(r#""usd":{cost}"#));
            let args: Vec<_> = percent.into_iter().chain(cost).collect();
            write!(self.out, "{}}}}},", args.join(","))?;
            let Some(cost) = slice.cost else { continue };
            if index == 0 {
                self.total(&counter, slice.span.0, sum)?;
            }
            sum += cost;
            self.total(&counter, slice.span.1, sum)?;
        }
        Ok(())
    }

    /// What a GPU has cost until an instant, since its first slice.
    fn total(
        &mut self,
        counter: &serde_json::Value,
        at: Timestamp,
        sum: NanoUsd,
    ) -> io::Result<()> {
        let (pid, tid, ts) = (self.pid, self.tid, self.ts(at));
        write!(
            self.out,
            r#"{{"ph":"C","cat":"phasemeter","name":{counter},"pid":{pid},"tid":{tid},"ts":{ts},"args":{{"usd":{sum}}}}},"#
        )
    }

    fn ts(&self, at: Timestamp) -> String {
        micros(i128::from(at.as_nanos()) - i128::from(self.base))
    }
}
