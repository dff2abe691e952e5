//! Until when the GPUs of a log or of a gateway exist, and time in which their source no longer lists them.
//!
//! The rule is [`phasemeter_meter::presence`]; here it is applied to the GPUs of a run, while it lasts and at
//! its end.

use phasemeter_meter::presence::{ABSENT_AFTER, Hosts, MissingTime, Presence};
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::Timestamp;

use super::gpu::{Absence, SpanEnd};
use super::{MeteredGpu, Pipeline, PipelineError};

impl Pipeline<'_> {
    /// The first and the last instant that are metered so far, in wall time.
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let spans = || self.gpus.iter().filter_map(|gpu| gpu.meter.span());
        let (from, to) = (spans().map(|(from, _)| from).min()?, spans().map(|(_, to)| to).max()?);
        let wall = self.wall.offset();
        Some((wall.wall(from), wall.wall(to)))
    }

    /// Whether time without readings before this one is billed.
    #[must_use]
    pub fn bills_pause(&self, before: &Reading) -> bool {
        match self.meter.missing {
            MissingTime::ByEvidence | MissingTime::Elsewhere => !before.begins_instance,
            MissingTime::Unobserved => true,
            MissingTime::Absent => false,
        }
    }

    /// Another meter has this GPU from `at` on: its span ends there.
    pub fn end_span_at(&mut self, gpu: usize, at: Option<Timestamp>) {
        self.gpus.iter_mut().skip(gpu).take(1).for_each(|gpu| gpu.elsewhere_from = at);
    }

    /// Leaves the time `from`..`to` of a GPU out of the bill, which lies before its next reading: another meter may have
    /// had it, from its last reading on at the earliest. Returns what is left out, if anything is.
    pub fn leave_out(
        &mut self,
        gpu: usize,
        from: Timestamp,
        to: Timestamp,
    ) -> Option<(Timestamp, Timestamp)> {
        self.reprice(gpu, to);
        let metered = self.gpus.get_mut(gpu)?;
        self.buffered -= metered.meter.buffered();
        let left_out = metered.leave_out(from, to, self.exporter.as_mut());
        self.buffered += metered.meter.buffered();
        left_out
    }

    /// Posts the time of GPUs that their source has not listed for [`ABSENT_AFTER`], while it lists others of
    /// their hosts. Whether a host that is silent as a whole is absent is known later: if it returns, or at
    /// the end. `is_listed`: whether a GPU has readings that are still to come.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn advance_unlisted(
        &mut self,
        identities: &[GpuIdentity],
        is_listed: impl Fn(usize) -> bool,
    ) -> Result<(), PipelineError> {
        let hosts =
            Hosts::of(presences(&self.gpus, identities, self.meter.missing).map(|(_, it)| it));
        let last_of = |it: &Presence<'_>| match self.meter.missing {
            MissingTime::ByEvidence | MissingTime::Elsewhere => Some(hosts.last_of_host(it)),
            MissingTime::Unobserved => hosts.last(),
            MissingTime::Absent => None,
        };
        let unlisted =
            presences(&self.gpus, identities, self.meter.missing).filter_map(|(gpu, presence)| {
                let end = hosts.end(&presence, self.meter.missing);
                let to = last_of(&presence)?.saturating_sub(ABSENT_AFTER).min(end);
                let covered = presence.covered_until();
                (covered < to).then(|| (gpu, to, hosts.unlisted(&presence)))
            });
        let unlisted: Vec<_> = unlisted.collect();
        for (gpu, to, vanished) in unlisted {
            self.reprice(gpu, to);
            let Some(metered) = self.gpus.get_mut(gpu) else { continue };
            if metered.elsewhere_from.is_none() && !is_listed(gpu) {
                self.buffered -= metered.meter.buffered();
                metered.advance_silent(to, vanished, self.exporter.as_mut());
                self.buffered += metered.meter.buffered();
            }
        }
        self.send()
    }

    /// Decides where the spans of all GPUs end, and which time is absent.
    pub(super) fn end_spans(&mut self, identities: &[GpuIdentity]) -> Vec<SpanEnd> {
        if let Some(end) = self.end {
            return vec![SpanEnd::Run(end); self.gpus.len()];
        }
        let hosts =
            Hosts::of(presences(&self.gpus, identities, self.meter.missing).map(|(_, it)| it));
        let run = hosts.last().unwrap_or_default();
        let mut ends = vec![SpanEnd::Log(run); self.gpus.len()];
        let found = presences(&self.gpus, identities, self.meter.missing).map(|(gpu, presence)| {
            let covered = presence.covered_until();
            let vanished = hosts.unlisted(&presence);
            (gpu, covered, hosts.end(&presence, self.meter.missing), vanished)
        });
        for (gpu, covered, end, vanished) in found.collect::<Vec<_>>() {
            let Some(metered) = self.gpus.get_mut(gpu) else { continue };
            let mut absence = Absence { after: None, time: metered.meter.absent() };
            let end = metered.elsewhere_from.map_or(end, |at| at.min(end));
            let is_elsewhere = self.meter.missing == MissingTime::Elsewhere;
            if end < run && metered.elsewhere_from.is_none() && !is_elsewhere {
                absence = Absence { after: Some((end, run)), time: absence.time + run.since(end) };
            }
            (metered.absence, metered.vanished) = (absence, vanished);
            metered.unlisted = end.since(covered);
            ends.iter_mut().skip(gpu).take(1).for_each(|it| *it = SpanEnd::Log(end));
        }
        ends
    }
}

/// Where and when each GPU was read, with its index.
fn presences<'a>(
    gpus: &'a [MeteredGpu],
    identities: &'a [GpuIdentity],
    missing: MissingTime,
) -> impl Iterator<Item = (usize, Presence<'a>)> {
    let presence = move |(gpu, identity): (&MeteredGpu, &'a GpuIdentity)| {
        let (first, last) = gpu.meter.begins_at().zip(gpu.meter.newest())?;
        Some(Presence {
            host: match missing {
                // GPUs of unknown hosts may be at different gateways.
                MissingTime::Elsewhere => identity.node_or_itself(),
                _ => identity.node().unwrap_or_default(),
            },
            instance: identity.instance().unwrap_or_default(),
            index: identity.index,
            first,
            last,
            stale_after: gpu.meter.estimated_stale_after(),
        })
    };
    let all = gpus.iter().zip(identities).map(presence).enumerate();
    all.filter_map(|(gpu, presence)| Some((gpu, presence?)))
}
