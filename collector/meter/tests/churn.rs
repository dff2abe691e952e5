//! Memory of a meter is bounded, however many pods come and go. In a process of its own, which does nothing else.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;

use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::holder::{Container, Grant, Holder, HolderAccount, HolderUse, Share};
use phasemeter_meter::holders::EarlierHolders;
use phasemeter_meter::money::Rate;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

/// Pods until memory does not grow any more, and after that.
const PODS: [u64; 2] = [3_000, 13_000];

/// How much it may grow in the latter, in KiB: a twentieth of what they would take.
const GROWTH: u64 = 1_024;

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_785_110_400_000 + millis).unwrap()
}

fn pod(number: u64) -> Holder {
    Holder::Container(Container {
        namespace: "training".to_owned(),
        pod: format!("train-{number}"),
        uid: Some(format!("{number:032x}")),
        container: "main".to_owned(),
    })
}

/// Four pods at a time have a quarter each; each second one is replaced.
fn meter_pods(meter: &mut GpuMeter, pods: std::ops::Range<u64>) {
    let utilization = Utilization::from_percent(20).unwrap();
    for second in pods {
        let grant = |number| Grant { holder: pod(number), share: Share::new(1, 4) };
        meter.assign(at(second * 1_000), (second..second + 4).map(grant).collect());
        for number in second..second + 4 {
            let (from, to) = (at(second * 1_000), at((second + 1) * 1_000));
            meter.push_use(HolderUse {
                holder: pod(number),
                from,
                to,
                utilization,
                own: Some(utilization),
            });
        }
        let reading = Reading { utilization: Ok(utilization), ..Reading::at(at(second * 1_000)) };
        meter.push(reading, &mut ()).unwrap();
    }
}

#[test]
fn memory_does_not_grow_with_pods_that_come_and_go() {
    let rate = Rate::parse("2.50").unwrap();
    let mut meter = GpuMeter::new(MeterConfig::default(), Some(rate), None);
    meter_pods(&mut meter, 0..PODS[0]);
    let before = resident();
    meter_pods(&mut meter, PODS[0]..PODS[1]);
    let growth = resident().saturating_sub(before);
    assert!(growth <= GROWTH, "memory grew by {growth} KiB");

    meter.finish(&mut ());
    let holders = meter.holders();
    let EarlierHolders { count, accounts: earlier, .. } = holders.earlier().next().unwrap();
    let kept = u64::try_from(holders.iter().count()).unwrap();
    // The last assignment is at the end, and has had no time.
    assert_eq!(count + kept, PODS[1] + 2);
    assert!(kept <= 1_024 + 4);
    let mut paid: Nanos = earlier.all().time;
    holders.iter().for_each(|(_, accounts)| paid += accounts.all().time);
    assert_eq!(paid, meter.accounts().all().time, "nothing is nobody's");
    assert_eq!(earlier.total(HolderAccount::NeverTouched).time, Nanos::ZERO);
    assert_eq!(holders.dropped(), 0);
}
