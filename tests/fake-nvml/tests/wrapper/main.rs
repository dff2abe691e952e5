//! The fake through an unmodified nvml-wrapper, as the sidecar reads a driver.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod components;
mod faults;

use std::ffi::OsStr;
use std::time::{SystemTime, UNIX_EPOCH};

use fake_nvml::{Control, Fake};
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{
    Clock, PcieUtilCounter, PerformanceState, Sampling, TemperatureSensor, TemperatureThreshold,
};
use nvml_wrapper::enums::device::{DeviceArchitecture, SampleValue, UsedGpuMemory};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml};
use phasemeter_meter::units::Nanos;
use tempfile::TempDir;

/// An initialized driver with two GPUs in virtual time.
struct Driver {
    nvml: Nvml,
    control: Control,
    fake: Fake,
    _dir: TempDir,
}

impl Driver {
    fn with(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::install(dir.path(), &format!("time = 'virtual'\n{script}")).unwrap();
        let control = fake.load().unwrap();
        Self { nvml: open(&fake).unwrap(), control, fake, _dir: dir }
    }

    fn at(&self, ms: u64) {
        self.control.set_time(Nanos::from_millis(ms)).unwrap();
    }

    fn device(&self, index: u32) -> Device<'_> {
        self.nvml.device_by_index(index).unwrap()
    }
}

fn open(fake: &Fake) -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(OsStr::new(&fake.library())).init()
}

const TWO: &str = "
[[device]]
uuid = 'GPU-a'
bus_id = '00000000:17:00.0'

[[device.phase]]
name = 'busy'
for_ms = 10000
utilization = 80
sm = 60
occupancy = 30
tensor = 25
dram = 40
pcie_rx_mib_s = 10
pcie_tx_mib_s = 20
power_w = 500
memory_used_mib = 1000
temperature_c = 65
sm_clock_mhz = 1755
throttle = ['sw_power_cap']
encoder = 12
decoder = 34
processes = [
    { pid = 11, name = 'python', memory_mib = 900 },
    { pid = 12, share = 50 },
    { pid = 13, kind = 'graphics' },
]

[[device.phase]]
name = 'idle'
for_ms = 10000
power_w = 100
ecc_corrected = 5
ecc_uncorrected = 1

[[device]]
name = 'NVIDIA A100-SXM4-40GB'
architecture = 'ampere'
memory_total_mib = 40960
serial = '1652823054567'
vbios_version = '92.00.19.00.13'
power_limit_w = 400
slowdown_c = 85
shutdown_c = 95
";

#[test]
fn devices_report_identity() {
    let driver = Driver::with(TWO);
    assert_eq!(driver.nvml.device_count().unwrap(), 2);
    assert_eq!(driver.nvml.sys_driver_version().unwrap(), "575.57.08");

    let first = driver.nvml.device_by_uuid("GPU-a").unwrap();
    assert_eq!(first.index().unwrap(), 0);
    assert_eq!(first.name().unwrap(), "NVIDIA H100 80GB HBM3");
    assert_eq!(first.architecture().unwrap(), DeviceArchitecture::Hopper);
    assert_eq!(first.pci_info().unwrap().bus_id, "00000000:17:00.0");
    assert!(first.gpm_support().unwrap());
    assert_eq!(first.mig_mode().unwrap().current, 0);

    let second = driver.nvml.device_by_pci_bus_id("0000:02:00.0").unwrap();
    assert_eq!(second.uuid().unwrap(), "GPU-00000000-0000-0000-0000-000000000001");
    assert_eq!(second.cuda_compute_capability().unwrap().major, 8);
    assert!(!second.gpm_support().unwrap());
    assert_eq!(second.serial().unwrap(), "1652823054567");
    assert_eq!(second.vbios_version().unwrap(), "92.00.19.00.13");
    assert_eq!(second.enforced_power_limit().unwrap(), 400_000);
    assert_eq!(second.power_management_limit().unwrap(), 400_000);
    let limit = |which| second.temperature_threshold(which);
    assert_eq!(limit(TemperatureThreshold::Slowdown).unwrap(), 85);
    assert_eq!(limit(TemperatureThreshold::Shutdown).unwrap(), 95);
    assert!(matches!(limit(TemperatureThreshold::MemoryMax), Err(NvmlError::NotSupported)));

    assert!(matches!(driver.nvml.device_by_index(2), Err(NvmlError::InvalidArg)));
    assert!(matches!(driver.nvml.device_by_uuid("GPU-c"), Err(NvmlError::NotFound)));
    assert!(matches!(first.fan_speed(0), Err(NvmlError::NotSupported)));
}

#[test]
fn readings_follow_the_script() {
    let driver = Driver::with(TWO);
    let device = driver.device(0);
    driver.at(5_000);
    let utilization = device.utilization_rates().unwrap();
    assert_eq!((utilization.gpu, utilization.memory), (80, 40));
    assert_eq!(device.power_usage().unwrap(), 500_000);
    assert_eq!(device.total_energy_consumption().unwrap(), 2_500_000);
    assert_eq!(device.temperature(TemperatureSensor::Gpu).unwrap(), 65);
    assert_eq!(device.clock_info(Clock::SM).unwrap(), 1_755);
    assert_eq!(device.performance_state().unwrap(), PerformanceState::Zero);
    assert_eq!(device.current_throttle_reasons().unwrap(), ThrottleReasons::SW_POWER_CAP);
    assert_eq!(device.enforced_power_limit().unwrap(), 700_000);
    assert_eq!(device.encoder_utilization().unwrap().utilization, 12);
    assert_eq!(device.decoder_utilization().unwrap().utilization, 34);
    assert_eq!(device.pcie_throughput(PcieUtilCounter::Receive).unwrap(), 10 << 10);

    let memory = device.memory_info().unwrap();
    let mebibytes = |bytes: u64| bytes >> 20;
    assert_eq!(mebibytes(memory.total), 81_559);
    assert_eq!((mebibytes(memory.used), mebibytes(memory.reserved)), (1_000, 551));
    assert_eq!(memory.free + memory.used + memory.reserved, memory.total);

    // Power is the mean of a second: half of it before the change.
    driver.at(10_500);
    assert_eq!(device.power_usage().unwrap(), 300_000);
    assert_eq!(device.utilization_rates().unwrap().gpu, 0);
}

#[test]
fn utilization_is_held_for_the_next_window() {
    let bursts = "
        [driver]
        window_ms = 100
        [[device]]
        [[device.phase]]
        for_ms = 10000
        burst = { period_ms = 1000, on_ms = 50 }
    ";
    let driver = Driver::with(bursts);
    let reported = |ms| {
        driver.at(ms);
        driver.device(0).utilization_rates().unwrap().gpu
    };
    assert_eq!(
        [reported(1_100), reported(1_150), reported(1_199), reported(1_200)],
        [50, 50, 50, 0]
    );
}

#[test]
fn samples_are_newer_than_last_seen() {
    let driver = Driver::with("[driver]\nsample_period_ms = 100\nsample_depth = 20\n[[device]]");
    let device = driver.device(0);
    let drain = |last| device.samples(Sampling::GpuUtilization, last);
    driver.at(99);
    assert!(matches!(drain(None), Err(NvmlError::NotFound)));

    driver.at(5_050);
    let all = drain(None).unwrap();
    assert_eq!(all.len(), 20);
    assert!(all.iter().all(|sample| matches!(sample.value, SampleValue::U32(0))));
    let start = 1_767_225_600_000_000;
    let stamps: Vec<u64> = all.iter().map(|sample| sample.timestamp).collect();
    let expected: Vec<u64> = (31..=50).map(|k| start + k * 100_000).collect();
    assert_eq!(stamps, expected);

    assert!(matches!(drain(stamps.last().copied()), Err(NvmlError::NotFound)));
    driver.at(5_250);
    assert_eq!(drain(stamps.last().copied()).unwrap().len(), 2);
    assert_eq!(device.samples(Sampling::Power, None).unwrap().len(), 52);
}

#[test]
fn timestamps_count_from_boot_with_uptime() {
    let driver = Driver::with("uptime_s = 10\n[[device]]");
    driver.at(2_000);
    let samples = driver.device(0).samples(Sampling::GpuUtilization, None).unwrap();
    assert_eq!(samples.last().unwrap().timestamp, 10_000_000 + 11 * 167_000);
}

#[test]
fn processes_report_memory_and_utilization() {
    let driver = Driver::with(&format!("[driver]\nsample_period_ms = 100\n{TWO}"));
    let device = driver.device(0);
    let compute = device.running_compute_processes().unwrap();
    let seen: Vec<_> = compute.iter().map(|p| (p.pid, p.used_gpu_memory.clone())).collect();
    let held = UsedGpuMemory::Used(900 << 20);
    assert_eq!(seen, [(11, held), (12, UsedGpuMemory::Unavailable)]);
    assert_eq!(compute[0].gpu_instance_id, None);
    assert_eq!(device.running_graphics_processes().unwrap()[0].pid, 13);
    assert_eq!(driver.nvml.sys_process_name(11, 64).unwrap(), "python");
    assert!(driver.device(1).running_compute_processes().unwrap().is_empty());

    driver.at(5_000);
    let shares = device.process_utilization_stats(None).unwrap();
    let seen: Vec<_> = shares.iter().map(|share| (share.pid, share.sm_util)).collect();
    assert_eq!(seen, [(11, 80), (12, 40), (13, 80)]);
    // For half of the time since then no process was there.
    driver.at(15_000);
    let since = shares[0].timestamp;
    assert_eq!(device.process_utilization_stats(since).unwrap()[0].sm_util, 40);
}

#[test]
fn field_values_follow_the_script() {
    let driver = Driver::with(TWO);
    let device = driver.device(0);
    driver.at(10_250);
    let ids = [185, 186, 197, 198, 83, 74, 3, 4, 82].map(FieldId);
    let values: Vec<_> =
        device.field_values_for(&ids).unwrap().into_iter().map(|v| v.unwrap().value).collect();
    let value = |at: usize| values[at].as_ref().unwrap().clone();
    assert_eq!(value(0), SampleValue::U32(400_000));
    assert_eq!(value(1), SampleValue::U32(100_000));
    assert_eq!(value(2), SampleValue::U64(200 << 20));
    assert_eq!(value(3), SampleValue::U64(100 << 20));
    assert_eq!(value(4), SampleValue::U64(5_020_000));
    assert_eq!(value(5), SampleValue::U64(10_000_000_000));
    assert_eq!((value(6), value(7)), (SampleValue::U64(5), SampleValue::U64(1)));
    assert!(matches!(values[8], Err(NvmlError::NotSupported)));
}

#[test]
fn fields_are_renumbered_by_driver_version() {
    let throttled = "[[device]]\n[[device.phase]]\nfor_ms = 1000\nthrottle = ['hw_thermal']";
    for version in ["575.57.08", "580.95.05"] {
        let driver = Driver::with(&format!("driver_version = '{version}'\n{throttled}"));
        driver.at(500);
        // The wrapper accepts the old number and renumbers it.
        let mut values = driver.device(0).field_values_for(&[FieldId(252)]).unwrap();
        let value = values.remove(0).unwrap().value.unwrap();
        assert_eq!(value, SampleValue::U64(500_000_000), "driver {version}");
    }
}

#[test]
fn gpm_reports_mean_between_samples() {
    let driver = Driver::with(TWO);
    let device = driver.device(0);
    let metrics = [
        GpmMetricId::SmUtil,
        GpmMetricId::SmOccupancy,
        GpmMetricId::AnyTensorUtil,
        GpmMetricId::DramBwUtil,
        GpmMetricId::PcieTxPerSec,
        GpmMetricId::PcieRxPerSec,
        GpmMetricId::DfmaTensorUtil,
    ];
    driver.at(9_000);
    let first = device.gpm_sample().unwrap();
    driver.at(9_099);
    let same_refresh = device.gpm_sample().unwrap();
    driver.at(11_000);
    let second = device.gpm_sample().unwrap();

    let reported = gpm_metrics_get(&driver.nvml, &first, &second, &metrics).unwrap();
    let values: Vec<_> = reported.iter().flatten().map(|metric| metric.value.round()).collect();
    assert_eq!(values, [30.0, 15.0, 13.0, 20.0, 10.0, 5.0]);
    assert!(matches!(reported[6], Err(NvmlError::NotSupported)));

    let reported = gpm_metrics_get(&driver.nvml, &first, &same_refresh, &metrics[..1]).unwrap();
    assert!(matches!(reported[0], Err(NvmlError::NoData)));
    assert!(matches!(driver.device(1).gpm_sample(), Err(NvmlError::NotSupported)));
}

#[test]
fn mig_mode_reports_utilization_through_gpm_only() {
    let driver = Driver::with("[[device]]\nmig = true");
    let device = driver.device(0);
    driver.at(5_000);
    assert_eq!(device.mig_mode().unwrap().current, 1);
    assert!(matches!(device.utilization_rates(), Err(NvmlError::NotSupported)));
    let samples = device.samples(Sampling::GpuUtilization, None);
    assert!(matches!(samples, Err(NvmlError::NotSupported)));
    assert!(device.gpm_sample().is_ok());
}

#[test]
fn xids_are_delivered_as_events() {
    let driver = Driver::with(
        "[[device]]\n[[device]]\n[[fault]]\nat_ms = 1000\ndevice = 1\nxid = 79\n
         [[fault]]\nat_ms = 1000\ndevice = 1\nerror = 'gpu_is_lost'",
    );
    let set = driver.nvml.create_event_set().unwrap();
    let set = driver.device(1).register_events(EventTypes::CRITICAL_XID_ERROR, set);
    let set = set.map_err(|failed| failed.error).unwrap();
    assert!(matches!(set.wait(0), Err(NvmlError::Timeout)));

    driver.at(1_000);
    let event = set.wait(0).unwrap();
    assert!(event.event_type.contains(EventTypes::CRITICAL_XID_ERROR));
    assert!(matches!(event.event_data, Some(XidError::Value(79))));
    assert!(matches!(set.wait(0), Err(NvmlError::GpuLost)));
    set.release_events().unwrap();
}

#[test]
fn real_time_starts_at_start_unix_ms() {
    let dir = tempfile::tempdir().unwrap();
    let unix_nanos = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(now.as_nanos()).unwrap()
    };
    let start = unix_nanos() / 1_000_000 - 5_000;
    let script = format!("start_unix_ms = {start}\n{TWO}");
    let fake = Fake::install(dir.path(), &script).unwrap();
    let _control = fake.load().unwrap();
    let nvml = open(&fake).unwrap();
    let device = nvml.device_by_index(0).unwrap();
    let expected =
        || fake.model().unwrap().devices[0].energy(Nanos(unix_nanos() - start * 1_000_000));
    // The call happens between two readings of the clock, however busy the machine is.
    let earliest = expected().0;
    let energy = device.total_energy_consumption().unwrap();
    let latest = expected().0;
    assert!(earliest >= 2_450_000, "the script started 5 s ago: {earliest} mJ");
    assert!((earliest..=latest).contains(&energy), "{energy} mJ of {earliest} to {latest}");
}
