//! The load of a group against brute force over the raw readings.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use phasemeter_meter::accounts::Charge;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig, Observer};
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::timeline::TimeSlice;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};
use phasemeter_savings::load::{GroupLoad, LoadFeed, LoadLevel, MEAN_SECONDS};
use proptest::prelude::*;

/// Start of all timelines, in seconds: a multiple of all means.
const START: u64 = 1_785_110_400;

/// Milliseconds of a second.
const SECOND: u64 = 1_000;

/// How long a reading lasts in milliseconds, and its utilization in ppm.
type Readings = Vec<(u64, Option<u32>)>;

/// One GPU: when its first reading is, in milliseconds after the start, and its readings.
#[derive(Clone, Debug)]
struct Timeline {
    first: u64,
    readings: Readings,
}

impl Timeline {
    /// When each reading begins and ends, and what it is.
    fn intervals(&self) -> impl Iterator<Item = (u64, u64, Option<u32>)> {
        self.readings.iter().scan(self.first, |at, (length, ppm)| {
            let from = *at;
            *at += length;
            Some((from, *at, *ppm))
        })
    }

    fn end(&self) -> u64 {
        self.intervals().last().map_or(self.first, |(_, to, _)| to)
    }

    /// Σ utilization × time of one second in ppm·ms; `None` if it was not observed in all of it. Before the first second
    /// and after the last it has no load.
    fn second(&self, second: u64) -> Option<u64> {
        let (from, to) = (second * SECOND, (second + 1) * SECOND);
        if second < self.first / SECOND || second > self.end() / SECOND {
            return Some(0);
        }
        if second == self.end() / SECOND && self.end().is_multiple_of(SECOND) {
            return Some(0);
        }
        let (mut sum, mut known) = (0, 0);
        for (begin, end, ppm) in self.intervals() {
            let time = end.min(to).saturating_sub(begin.max(from));
            if time > 0 {
                sum += u64::from(ppm?) * time;
                known += time;
            }
        }
        (known == SECOND).then_some(sum)
    }
}

struct Feeder<'a>(&'a mut LoadFeed);

impl Observer for Feeder<'_> {
    fn charge(&mut self, charge: &Charge) {
        self.0.post(&charge.slice);
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(START * SECOND + millis).unwrap()
}

/// The group of these GPUs, and the feed of each; what is known is added up after each `every` readings. `local`: local
/// time in seconds east of UTC.
fn grouped(timelines: &[Timeline], every: usize, local: i64) -> (GroupLoad, Vec<LoadFeed>) {
    let stale_after = StaleAfter::Fixed(Nanos::from_secs(10_000));
    let config = MeterConfig { stale_after, ..MeterConfig::default() };
    let mut group = GroupLoad::new(None);
    group.set_local(local);
    let mut meters = Vec::new();
    for timeline in timelines {
        let feed = LoadFeed::begin(at(timeline.first), None);
        meters.push((GpuMeter::new(config, None, None), feed));
    }
    meters.iter().for_each(|(_, feed)| group.join(feed));
    let readings = timelines.iter().enumerate().flat_map(|(gpu, timeline)| {
        let last = (timeline.end(), timeline.end(), None);
        timeline.intervals().chain([last]).map(move |(from, _, ppm)| (from, gpu, ppm))
    });
    let mut readings: Vec<_> = readings.collect();
    readings.sort_by_key(|(from, gpu, _)| (*from, *gpu));
    for (count, (from, gpu, ppm)) in readings.into_iter().enumerate() {
        let utilization = ppm.and_then(Utilization::from_ppm).ok_or(MissingReason::NotCollected);
        let (meter, feed) = &mut meters[gpu];
        meter.push(Reading { utilization, ..Reading::at(at(from)) }, &mut Feeder(feed)).unwrap();
        if count % every == 0 {
            add_up(&mut group, &mut meters, false);
        }
    }
    for (meter, feed) in &mut meters {
        meter.finish(&mut Feeder(feed));
        feed.end();
    }
    add_up(&mut group, &mut meters, true);
    (group, meters.into_iter().map(|(_, feed)| feed).collect())
}

fn add_up(group: &mut GroupLoad, meters: &mut [(GpuMeter, LoadFeed)], is_final: bool) {
    let mut feeds: Vec<_> = meters.iter_mut().map(|(_, feed)| feed).collect();
    group.add_up(&mut feeds, is_final);
}

/// Time in which the load was above this many percent, in seconds.
fn above(levels: &[LoadLevel], percent: u32) -> u64 {
    let above = levels.iter().filter(|level| level.percent > percent);
    above.map(|level| level.time.0 / Nanos::SECOND.0).sum()
}

/// The means of this length that are known, in ppm·ms of one of their seconds, each with the second of its start.
fn brute_force(timelines: &[Timeline], seconds: u64) -> Vec<(u64, f64)> {
    let first = timelines.iter().map(|it| it.first / SECOND).min().unwrap();
    let end = timelines.iter().map(|it| it.end().div_ceil(SECOND)).max().unwrap();
    let sum = |second: u64| -> Option<u64> {
        let known = (first..end).contains(&second);
        known.then(|| timelines.iter().map(|it| it.second(second)).sum::<Option<u64>>())?
    };
    let slots = (first / seconds..=end / seconds).filter_map(|slot| {
        let of_slot = (slot * seconds..(slot + 1) * seconds).map(sum);
        Some((slot * seconds, of_slot.sum::<Option<u64>>()? as f64 / seconds as f64))
    });
    slots.collect()
}

/// Whether these levels are those of the means, each of so many seconds: all time counts, and each mean at its load or
/// up to `width` percent above it.
fn compare(
    levels: &[LoadLevel],
    exact: &[f64],
    seconds: u64,
    width: u32,
) -> Result<(), TestCaseError> {
    let time: u64 = levels.iter().map(|level| level.time.0 / Nanos::SECOND.0).sum();
    prop_assert_eq!(time, exact.len() as u64 * seconds, "{} s", seconds);
    for percent in 0..600 {
        // In ppm·ms; rounding adds less than a millionth per GPU.
        let is_above = |percent: u32| {
            let bound = f64::from(percent) * 10_000.0 * SECOND as f64;
            exact.iter().filter(|mean| **mean > bound).count() as u64 * seconds
        };
        let (found, least) = (above(levels, percent), is_above(percent));
        prop_assert!(found >= least, "{} s, {}%", seconds, percent);
        let most = percent.checked_sub(width).map_or(u64::MAX, is_above);
        prop_assert!(found <= most, "{} s, {}%", seconds, percent);
    }
    Ok(())
}

/// The hour of the week of a second after the start, from Monday at 00:00 local time.
fn hour_of_week(second: u64, local: i64) -> u32 {
    let local = (START + second).cast_signed() + local;
    // 1970-01-01 was a Thursday.
    let (day, hour) = ((local.div_euclid(86_400) + 3) % 7, local.rem_euclid(86_400) / 3_600);
    u32::try_from(day * 24 + hour).unwrap()
}

fn timeline() -> impl Strategy<Value = Timeline> {
    let length = prop_oneof![10_u64..3_000, Just(1_000), 3_000_u64..40_000];
    let ppm =
        prop_oneof![4 => (0_u32..=1_000_000).prop_map(Some), 2 => Just(Some(0)), 1 => Just(None)];
    let readings = prop::collection::vec((length, ppm), 1..40);
    (0_u64..20_000, readings).prop_map(|(first, readings)| Timeline { first, readings })
}

proptest! {
    #[test]
    fn load_is_that_of_all_readings_on_the_safe_side(
        timelines in prop::collection::vec(timeline(), 1..6),
        every in 1_usize..50,
        local in -50_400_i64..=50_400,
    ) {
        let (group, feeds) = grouped(&timelines, every, local);
        for (levels, seconds) in group.levels().iter().zip(MEAN_SECONDS.map(u64::from)) {
            let exact: Vec<_> = brute_force(&timelines, seconds).into_iter().map(|it| it.1).collect();
            compare(levels, &exact, seconds, 1)?;
        }
        // 500% in at most 64 steps.
        let exact = brute_force(&timelines, 10);
        let week = group.week();
        for hour in 0..168 {
            let own = exact.iter().filter(|it| hour_of_week(it.0, local) == hour);
            let own: Vec<_> = own.map(|it| it.1).collect();
            let levels = week.iter().find(|it| it.hour == hour).map_or(&[][..], |it| &it.levels);
            compare(levels, &own, 10, 8)?;
        }
        for (timeline, feed) in timelines.iter().zip(feeds) {
            for (levels, seconds) in feed.levels().iter().zip(MEAN_SECONDS.map(u64::from)) {
                let exact = alone(timeline, seconds);
                compare(levels, &exact, seconds, 1)?;
            }
        }
    }
}

/// The means of this length of one GPU, of time in which it was there.
fn alone(timeline: &Timeline, seconds: u64) -> Vec<f64> {
    let there = timeline.first / SECOND..timeline.end().div_ceil(SECOND);
    let slots = there.start / seconds..=there.end / seconds;
    let slots = slots.filter_map(|slot| {
        let of_slot = slot * seconds..(slot + 1) * seconds;
        let known = of_slot.map(|it| there.contains(&it).then(|| timeline.second(it))?);
        Some(known.sum::<Option<u64>>()? as f64 / seconds as f64)
    });
    slots.collect()
}

/// 80% from one second to another.
fn slice(from: u64, to: u64) -> TimeSlice {
    TimeSlice {
        from: at(from * SECOND),
        to: at(to * SECOND),
        account: Account::Productive,
        weighted: 800_000 * u128::from((to - from) * Nanos::SECOND.0),
        quiet: false,
    }
}

/// Scenario: a GPU of the group is found only after time in which it was there was added up.
/// Guarantee: that time does not count, since its load is unknown.
#[test]
fn time_in_which_a_gpu_was_missed_does_not_count() {
    let feeder = |first: u64| LoadFeed::begin(at(first * SECOND), None);
    let mut group = GroupLoad::new(None);
    let mut one = feeder(0);
    group.join(&one);
    one.post(&slice(0, 100));
    group.add_up(&mut [&mut one], false);
    assert_eq!(above(&group.levels()[0], 0), 70, "the last half minute waits");
    let mut late = feeder(50);
    group.join(&late);
    assert_eq!(above(&group.levels()[0], 0), 0);
    late.post(&slice(50, 200));
    one.post(&slice(100, 200));
    one.end();
    late.end();
    group.add_up(&mut [&mut one, &mut late], true);
    assert_eq!(above(&group.levels()[0], 159), 130);
}

/// Scenario: one GPU of two gets no readings any more, and is neither listed as gone.
/// Guarantee: the time without it does not count, and the other's seconds do not wait for good.
#[test]
fn gpu_that_lags_makes_time_unknown() {
    let (mut one, mut silent) = (LoadFeed::begin(at(0), None), LoadFeed::begin(at(0), None));
    let mut group = GroupLoad::new(None);
    group.join(&one);
    group.join(&silent);
    silent.post(&slice(0, 600));
    for hour in 0..30 {
        one.post(&slice(hour * 3_600, (hour + 1) * 3_600));
        group.add_up(&mut [&mut one, &mut silent], false);
    }
    assert_eq!(above(&group.levels()[0], 0), 600);
    assert_eq!(group.until(), at((30 * 3_600 - 900) * SECOND));
}
