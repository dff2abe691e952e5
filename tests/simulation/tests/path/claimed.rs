//! Whether the backend has the time of each GPU once, from its first start to its last end: in a sum, or in a gap that is stated.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::Signal;
use phasemeter_otlp::names::{attribute, event};
use prost::Message;

use crate::books::{Points, double, nano, points, text};
use crate::network::Backend;
use crate::oracle::Sums;
use crate::run::{Life, Run};
use crate::world::World;

/// The lengths of gaps, by GPU and end.
type Gaps = BTreeMap<(String, u64), i128>;

/// Stated gaps, and their lengths together.
#[derive(Default)]
pub(crate) struct Stated {
    pub(crate) gaps: u64,
    pub(crate) nanos: i128,
}

/// What is claimed of a GPU.
#[derive(Default)]
struct Claimed {
    /// Until when, in the time of the run with this number: what a backend refused is claimed, and lost, and what was dropped
    /// may be claimed or not.
    until: Vec<(usize, u64)>,
    /// Whether a disk has failed since, so that it is not known.
    is_unknown: bool,
}

/// Checks all GPUs.
pub(crate) fn check(world: &World, backend: &Backend, arrived: &Points) -> Result<Stated, String> {
    let mut gaps = gaps(backend.arrived.keys())?;
    let refused = (self::gaps(backend.refused.iter())?, points(backend.refused.iter())?);
    let made = world.runs.iter().flat_map(|run| &run.lives).flat_map(|life| &life.made);
    let made: BTreeSet<_> = made.filter(|_| world.is_limited).collect();
    let made = points(made.into_iter())?;
    let mut stated = Stated::default();
    for id in world.gpus.iter().filter_map(|gpu| gpu.uuid.clone()) {
        let mut claimed = Claimed::default();
        for (number, run) in world.runs.iter().enumerate() {
            let start = run.start.as_nanos();
            let gap = gaps.remove(&(id.clone(), start));
            let ends = |points: &Points| ends(points, start, &id);
            let (sums, lost) = (ends(arrived), [ends(&refused.1), ends(&made)].concat());
            let has_lost_gap = refused.0.contains_key(&(id.clone(), start)) || world.is_limited;
            let is_faulty =
                run.lives.iter().any(is_disk_faulty) || world.faults_before.contains(&number);
            claimed.is_unknown |= is_faulty;
            match gap {
                _ if claimed.is_unknown => {}
                Some(length) => {
                    claimed.check(world, run, length).map_err(|it| format!("{id}: {it}"))?;
                }
                None if has_lost_gap || claimed.until.is_empty() => {}
                None if sums.is_empty() && lost.is_empty() => {}
                None => return Err(format!("{id}: time before {start} is in no sum and no gap")),
            }
            if let Some(length) = gap {
                stated.gaps += 1;
                stated.nanos += length;
            }
            let newest = sums.iter().max().copied();
            if newest.is_some() || gap.is_some() {
                claimed.until = vec![(number, newest.unwrap_or(start))];
                claimed.is_unknown = is_faulty;
            } else if has_lost_gap {
                if !world.is_limited {
                    claimed.until.clear();
                }
                claimed.until.push((number, start));
            }
            let lost = lost.into_iter().filter(|end| newest.is_none_or(|newest| newest < *end));
            let lost: Vec<_> = lost.map(|end| (number, end)).collect();
            match lost.last() {
                // It is claimed until the last one.
                Some(last) if !world.is_limited => claimed.until = vec![*last],
                _ => claimed.until.extend(lost),
            }
        }
    }
    match gaps.first_key_value() {
        None => Ok(stated),
        Some(((id, end), _)) => Err(format!("{id}: a gap until {end}, where no run begins")),
    }
}

fn is_disk_faulty(life: &Life) -> bool {
    life.is_disk_faulty
}

impl Claimed {
    /// Checks the length of a gap until the start of a run.
    fn check(&self, world: &World, run: &Run, length: i128) -> Result<(), String> {
        let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
        let start = run.moments[0];
        let earlier = self.until.iter();
        let earlier = earlier.map(|(number, until)| {
            let moments = &world.runs[*number].moments;
            start.since(at(*until), moments)
        });
        // Nothing of a run may have left, which is then in a gap from its start on.
        let begun = world.begun.iter().filter(|_| self.until.is_empty());
        let begun = begun.map(|began| start.since(began.at, std::slice::from_ref(began)));
        let lengths: Vec<_> = earlier.chain(begun).collect();
        if lengths.iter().any(|(least, most)| (*least..=*most).contains(&length)) {
            return Ok(());
        }
        Err(format!("a gap of {length} ns until {:?}, not of {lengths:?}", run.start))
    }
}

/// Until when the sums of a GPU with this start are, in order.
fn ends(points: &Points, start: u64, id: &str) -> Vec<u64> {
    let points = points.get(&(start, id.to_owned())).into_iter().flatten();
    let length = |sums: &Sums| sums.iter().map(|it| it.0).sum::<i128>();
    let mut ends: Vec<_> =
        points.map(|(_, sums)| start + u64::try_from(length(sums)).unwrap()).collect();
    ends.sort_unstable();
    ends
}

/// All gaps that these requests state.
fn gaps<'a>(requests: impl Iterator<Item = &'a (Signal, Bytes)>) -> Result<Gaps, String> {
    let mut gaps = Gaps::new();
    for (signal, body) in requests.filter(|it| it.0 == Signal::Logs) {
        let request = ExportLogsServiceRequest::decode(body.clone());
        let request = request.map_err(|error| format!("{signal:?}: {error}"))?;
        let scopes = request.resource_logs.into_iter().flat_map(|it| it.scope_logs);
        let records = scopes.flat_map(|it| it.log_records);
        for record in records.filter(|record| record.event_name == event::GPU_GAP_FOUND) {
            let length = nano(double(&record.attributes, attribute::GPU_GAP_DURATION));
            let key = (text(&record.attributes, "hw.id").to_owned(), record.time_unix_nano);
            let (id, end) = key.clone();
            if gaps.insert(key, length).is_some_and(|other| other != length) {
                return Err(format!("{id}: two gaps until {end}"));
            }
        }
    }
    Ok(gaps)
}
