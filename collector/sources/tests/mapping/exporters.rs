//! Several exporters of one GPU, of which only some name its holders, and no label tells them apart.

use std::collections::BTreeMap;

use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::Rate;
use phasemeter_sources::mapping::Mappings;

use super::holding::{found, read};
use super::*;

const UTIL: &str = "DCGM_FI_DEV_GPU_UTIL";
const STALE: u64 = 45;

/// The values of a page at this second.
fn page(second: u64, lines: &[(&str, &str, f64)]) -> Vec<GpuValue> {
    let mappings = Mappings::built_in().unwrap();
    lines.iter().filter_map(|line| read(&mappings, second, *line)).collect()
}

/// What is assigned by pages at these seconds.
fn assigned(values: &[GpuValue]) -> Vec<String> {
    let is_used = |change: &String| change.contains(" uses ") || change.ends_with("touched");
    found(values).into_iter().filter(|change| !is_used(change)).collect()
}

/// Scenario: one exporter names the pod of a GPU, another one does not. They report one after the other, at any
/// distance, and as often as each other or not.
/// Guarantee: the pod holds the GPU from the first report that names it to the first of that exporter that does not, within a
/// tenth of its pace.
#[test]
fn exporter_that_names_nobody_ends_nothing() {
    for (offset, named_every, other_every) in
        [(7, 15, 15), (1, 15, 15), (14, 15, 15), (7, 30, 10), (2, 10, 30), (7, 60, 15)]
    {
        let mut values = Vec::new();
        for second in (0..600).step_by(other_every) {
            values.extend(page(second, &[(UTIL, "", 50.0)]));
        }
        let reports = (offset..600).step_by(named_every);
        for (report, second) in reports.clone().enumerate() {
            let pod = if (2..6).contains(&report) { "pod=a,namespace=ml" } else { "" };
            if second % u64::try_from(other_every).unwrap() != 0 {
                values.extend(page(second, &[(UTIL, pod, 50.0)]));
            }
        }
        let times: Vec<_> = reports.collect();
        let found = assigned(&values);
        let [begin, end] = &found[..] else { panic!("{offset} {named_every}: {found:?}") };
        assert_eq!(*begin, format!("{}: ml/a 1/1", times[2]));
        // Up to a tenth of what lies between two reports earlier, if the other exporter reports then.
        let end: u64 = end.strip_suffix(": ").unwrap().parse().unwrap();
        let earliest = times[6] - u64::try_from(named_every / 10).unwrap();
        assert!((earliest..=times[6]).contains(&end), "{offset} {named_every}: {end}");
    }
}

/// Scenario: the exporter with pods has a series of each, the other one that of the GPU only; or both have those of MIG
/// instances.
/// Guarantee: what pods use lasts to the next report of that exporter, and so does whose an instance is.
#[test]
fn uses_last_to_the_next_report_with_pods() {
    let mut values = Vec::new();
    let instance = |further: &str| {
        format!("modelName=NVIDIA A100-SXM4-80GB,GPU_I_ID=1,GPU_I_PROFILE=7g.80gb,{further}")
    };
    let [plain, held] = [instance(""), instance("pod=m,namespace=ml")];
    let mut of_instances = Vec::new();
    for second in (0..60).step_by(15) {
        values.extend(page(second, &[(UTIL, "", 80.0)]));
        let shares = [(UTIL, "", 80.0), (UTIL, "pod=a", 60.0), (UTIL, "pod=b", 20.0)];
        values.extend(page(second + 7, &shares));
        const ACTIVE: &str = "DCGM_FI_PROF_GR_ENGINE_ACTIVE";
        of_instances.extend(page(second, &[(ACTIVE, &plain, 0.5)]));
        of_instances.extend(page(second + 7, &[(ACTIVE, &held, 0.5)]));
    }
    let changes = found(&values);
    for (from, to) in [(7, 15), (15, 22), (45, 52), (52, 97)] {
        assert!(changes.contains(&format!("{from}-{to}: a uses 60%")), "{changes:?}");
    }
    assert_eq!(assigned(&values), ["7: a ?, b ?", "97: "]);
    assert_eq!(assigned(&of_instances), ["0: MIG 7g.80gb 1 1/1", "7: ml/m 1/1", "97: "]);
}

/// Scenario: the exporter without pods has another source of utilization, and reports first, so that the GPU is metered
/// by it.
/// Guarantee: the pods that the other one names hold the GPU.
#[test]
fn pods_are_those_of_the_exporter_that_the_gpu_is_not_metered_by() {
    let mut values = Vec::new();
    for second in (0..60).step_by(15) {
        values.extend(page(second, &[(UTIL, "", 50.0)]));
        values.extend(page(second + 7, &[("DCGM_FI_PROF_SM_ACTIVE", "pod=a,namespace=ml", 0.4)]));
    }
    assert_eq!(assigned(&values), ["7: ml/a 1/1", "97: "]);
}

/// An exporter: how often it reports, from when on, and whether it names pods.
type Exporter = (u64, u64, bool);

/// Instants of a GPU, each with the pod that it names.
type Instants = BTreeMap<u64, Option<usize>>;

/// What these exporters report while pods hold the GPU one after another, each from the end of the one before, for as
/// long as stated; every second one is nobody.
fn instants(exporters: &[Exporter], lengths: &[u64]) -> Instants {
    let ends: Vec<u64> = lengths
        .iter()
        .scan(0, |end, length| {
            *end += length;
            Some(*end)
        })
        .collect();
    let mut instants = Instants::new();
    for (every, from, names) in exporters {
        for second in (*from..*ends.last().unwrap()).step_by(usize::try_from(*every).unwrap()) {
            let place = ends.iter().position(|end| second < *end);
            let pod = place.filter(|place| *names && place % 2 == 1);
            let known = instants.entry(second).or_default();
            *known = known.or(pod);
        }
    }
    instants
}

/// The oracle, from the rule: how long each pod holds the GPU up to the last instant, in tenths of a second.
fn held(instants: &Instants) -> BTreeMap<usize, u64> {
    let all: Vec<(u64, Option<usize>)> = instants.iter().map(|(at, pod)| (*at, *pod)).collect();
    let named: Vec<(u64, usize)> =
        all.iter().filter_map(|(at, pod)| Some((*at, (*pod)?))).collect();
    // Start, end and length of what is between two instants with the same pod.
    let gap = |(x, of_x): (u64, usize), (y, of_y): (u64, usize)| {
        let others = all.iter().any(|(at, pod)| x < *at && *at < y && pod.is_none());
        let counts = of_x == of_y && y - x <= if others { 4 * STALE } else { STALE };
        counts.then_some((x, y, y - x))
    };
    let gaps: Vec<_> = named.windows(2).filter_map(|pair| gap(pair[0], pair[1])).collect();
    let pace_at = |at: u64, looks_ahead: bool| {
        let mut before: Vec<u64> =
            gaps.iter().filter(|(_, y, _)| *y <= at).map(|gap| gap.2).collect();
        before.drain(..before.len().saturating_sub(8));
        let ahead = named.windows(2).filter(|pair| looks_ahead && at < pair[1].0).take(8);
        let ahead = ahead.filter(|pair| pair[1].0 <= at + 4 * STALE);
        before.extend(ahead.filter_map(|pair| gap(pair[0], pair[1])).map(|gap| gap.2));
        before.sort_unstable();
        match before[..] {
            [] => None,
            [only] => Some(only).filter(|only| *only <= STALE),
            [.., second, _] => Some(second),
        }
    };
    let mut held: BTreeMap<usize, u64> = BTreeMap::new();
    // Who holds it since when, in tenths, and when it was seen last, in seconds.
    let mut holder: Option<(usize, u64, u64)> = None;
    let mut end = |holder: &mut Option<(usize, u64, u64)>, at: u64| {
        if let Some((pod, since, _)) = holder.take() {
            *held.entry(pod).or_default() += at - since;
        }
    };
    let mut pace = None;
    let mut was_named = true;
    for (at, pod) in &all {
        let last = named.iter().rfind(|(before, _)| before < at);
        let is_recent = last.is_some_and(|(last, _)| at - last <= 4 * STALE);
        if pod.is_none() || was_named {
            pace = pace_at(*at, pod.is_none() && is_recent);
        }
        was_named = pod.is_some();
        let tenths = (10 * STALE).max(11 * pace.unwrap_or_default());
        if let Some((.., seen)) = holder
            && 10 * seen + tenths < 10 * at
        {
            end(&mut holder, 10 * seen + tenths);
        }
        let next = named.iter().find(|(next, _)| at < next && *next <= at + 4 * STALE);
        match (pod, last.filter(|_| is_recent), pace) {
            (Some(pod), ..) => match &mut holder {
                Some((of, _, seen)) if of == pod => *seen = *at,
                _ => {
                    end(&mut holder, 10 * at);
                    holder = Some((*pod, 10 * at, *at));
                }
            },
            (None, Some(last), Some(pace)) => {
                let next = next.and_then(|next| gap(*last, *next));
                let goes_on = next.is_some_and(|(.., length)| 10 * length <= 11 * pace);
                if !goes_on && 10 * (at - last.0) >= 9 * pace {
                    end(&mut holder, 10 * at);
                }
            }
            (None, ..) => end(&mut holder, 10 * at),
        }
    }
    end(&mut holder, 10 * all.last().unwrap().0);
    held
}

/// What each pod pays for by the meter, and nobody, in nanoseconds; their sums are the GPU's, money included.
fn paid(instants: &Instants, seed: u64) -> (BTreeMap<usize, u64>, u64) {
    let mappings = Mappings::built_in().unwrap();
    let mut values: Vec<GpuValue> = instants
        .iter()
        .flat_map(|(second, pod)| {
            let labels = pod.map_or(String::new(), |pod| format!("pod={pod}"));
            let busy = f64::from(u32::try_from(second % 90).unwrap());
            let lines = [(UTIL, busy), ("DCGM_FI_DEV_POWER_USAGE", 70.0)];
            lines.map(|(metric, number)| {
                read(&mappings, *second, (metric, &labels, number)).unwrap()
            })
        })
        .collect();
    let key = |value: &GpuValue| (value.at.as_nanos() ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    values.sort_by_key(|value| (key(value), value.basis));
    let mut buffer = ReadingBuffer::new(HOLD, None, Some(Nanos::from_secs(STALE)));
    values.into_iter().for_each(|value| _ = buffer.insert(value, arrival(0)));
    let mut meter = GpuMeter::new(MeterConfig::default(), Some(Rate::parse("2.50").unwrap()), None);
    for held in buffer.release_all() {
        held.holder_changes.into_iter().for_each(|change| meter.change_holders(change));
        meter.push(held.reading, &mut ()).unwrap();
    }
    meter.finish(&mut ());
    let all = meter.accounts().all();
    let holders = meter.holders();
    let mut nobody = all;
    let mut paid = BTreeMap::new();
    for (holder, accounts) in holders.iter() {
        let of = accounts.all();
        paid.insert(holder.to_string().parse().unwrap(), of.time.0);
        nobody.time = nobody.time - of.time;
        nobody.cost = nobody.cost - of.cost;
    }
    let rest = phasemeter_meter::phase::Account::ALL.map(|account| holders.nobody(account));
    let cost: i128 = rest.iter().map(|balance| balance.cost.0).sum();
    if !holders.is_empty() {
        assert_eq!(cost, nobody.cost.0, "to the nano-dollar");
    }
    (paid, nobody.time.0)
}

proptest! {
    /// Guarantee: whatever exporters report a GPU, in any order of lines, pods pay for the time that the rule gives them,
    /// and the rest is nobody's. A single exporter names a pod until it does not.
    #[test]
    fn accounts_are_those_of_the_rule(
        exporters in prop::collection::vec((prop::sample::select(vec![10_u64, 15, 20, 30, 60]), 0_u64..60, any::<bool>()), 1..4),
        lengths in prop::collection::vec(20_u64..400, 1..8),
        seed in any::<u64>(),
    ) {
        let instants = instants(&exporters, &lengths);
        prop_assume!(instants.len() > 1);
        let expected = held(&instants);
        let (paid, nobody) = paid(&instants, seed);
        let nanos = |seconds: u64| seconds * 1_000_000_000;
        let expected: BTreeMap<usize, u64> =
            expected.into_iter().filter(|(_, held)| *held > 0).map(|(pod, held)| (pod, nanos(held) / 10)).collect();
        let paid: BTreeMap<usize, u64> = paid.into_iter().filter(|(_, paid)| *paid > 0).collect();
        prop_assert_eq!(&paid, &expected, "{:?}", instants);
        let (first, last) = (instants.keys().next().unwrap(), instants.keys().next_back().unwrap());
        prop_assert_eq!(nobody + paid.values().sum::<u64>(), nanos(last - first));
    }
}
