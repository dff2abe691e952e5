//! The calls on a scripted driver.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsStr;

use fake_nvml::{Control, Fake};
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use phasemeter_meter::units::Nanos;
use phasemeter_nvml_calls::{
    MAX_ENTRIES, ScopedField, compute_processes, field_values, gpu_instance_id, gpu_instance_start,
    mps_processes, process_utilization, samples,
};

struct Driver {
    nvml: Nvml,
    control: Control,
    _dir: tempfile::TempDir,
}

fn driver(script: &str) -> Driver {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::install(dir.path(), &format!("time = 'virtual'\n{script}")).unwrap();
    let control = fake.load().unwrap();
    let nvml = Nvml::builder().lib_path(OsStr::new(&fake.library())).init().unwrap();
    Driver { nvml, control, _dir: dir }
}

#[test]
fn field_values_are_those_of_their_scope() {
    let driver = driver(
        "[[device]]
        nvlinks = 2
        [[device.phase]]
        for_ms = 10000
        nvlink_tx_mib_s = 20
        nvlink_errors = [{ link = 1, replay = 4 }]",
    );
    driver.control.set_time(Nanos::SECOND).unwrap();
    let device = driver.nvml.device_by_index(0).unwrap();
    let fields = [(138, 0), (161, 0), (161, 1), (161, 2), (91, 0)];
    let fields = fields.map(|(id, scope)| ScopedField { id, scope });
    let values = field_values(&device, &fields).unwrap();
    let [sent, none, replays, absent, links] = &values[..] else { panic!("{values:?}") };
    assert_eq!(sent.as_ref().unwrap(), &SampleValue::U64(10 << 10));
    assert_eq!(none.as_ref().unwrap(), &SampleValue::U64(0));
    assert_eq!(replays.as_ref().unwrap(), &SampleValue::U64(4));
    assert!(matches!(absent, Err(NvmlError::InvalidArg)), "{absent:?}");
    assert_eq!(links.as_ref().unwrap(), &SampleValue::U32(2));
}

/// The bounded lists are those of `nvml-wrapper`, and no number of entries that a driver claims is believed.
#[test]
fn lists_are_bounded() {
    let gpu = "[[device]]
        [[device.phase]]
        for_ms = 60000
        utilization = 50
        processes = [{ pid = 1, share = 30 }, { pid = 2 }, { pid = 3, kind = 'mps' }]\n";
    let fault = |device, entries: u32| {
        format!(
            "[[fault]]
            device = {device}
            functions = [
                'nvmlDeviceGetComputeRunningProcesses_v3', 'nvmlDeviceGetMPSComputeRunningProcesses_v3',
                'nvmlDeviceGetProcessUtilization', 'nvmlDeviceGetSamples',
            ]
            entries = {entries}\n"
        )
    };
    let faults = [fault(1, u32::MAX), fault(2, MAX_ENTRIES + 1), fault(3, 1_000)].concat();
    let driver = driver(&format!("{}{faults}", gpu.repeat(4)));
    driver.control.set_time(Nanos::from_secs(10)).unwrap();
    let busy = Sampling::GpuUtilization;
    let device = |index| driver.nvml.device_by_index(index).unwrap();
    for index in [0, 3] {
        let (gpu, first) = (device(index), device(0));
        assert_eq!(compute_processes(&gpu).unwrap(), first.running_compute_processes().unwrap());
        assert_eq!(mps_processes(&gpu).unwrap().len(), 1);
        let used = process_utilization(&gpu, 0).unwrap();
        assert_eq!(used, first.process_utilization_stats(None).unwrap());
        let (all, expected) = (samples(&gpu, busy, 0).unwrap(), first.samples(busy, None).unwrap());
        assert_eq!(all[..expected.len()], expected);
        // What the driver did not write.
        assert!(all[expected.len()..].iter().all(|sample| sample.timestamp == 0));
    }
    for index in [1, 2] {
        let gpu = device(index);
        let is_refused = |error| matches!(error, Some(NvmlError::InsufficientSize(Some(_))));
        assert!(is_refused(compute_processes(&gpu).err()));
        assert!(is_refused(mps_processes(&gpu).err()));
        assert!(is_refused(process_utilization(&gpu, 0).err()));
        assert!(is_refused(samples(&gpu, busy, 0).err()));
    }
}

#[test]
fn failed_call_is_an_error() {
    let driver = driver(
        "[[device]]
        [[fault]]
        functions = ['nvmlDeviceGetFieldValues']
        error = 'gpu_is_lost'",
    );
    let device = driver.nvml.device_by_index(0).unwrap();
    assert!(matches!(field_values(&device, &[]), Err(NvmlError::GpuLost)));
    // Not a MIG instance.
    assert!(matches!(gpu_instance_id(&device), Err(NvmlError::NotSupported)));
}

#[test]
fn gpu_instance_contains_mig_instance() {
    let driver = driver("[[device]]\nmig = true\n[[device.instance]]\ngpu_instance = 11");
    let device = driver.nvml.device_by_index(0).unwrap();
    let instance = device.mig_device_by_index(0).unwrap();
    assert_eq!(gpu_instance_id(&instance).unwrap(), 11);
}

#[test]
fn placement_is_that_of_its_gpu_instance() {
    let driver = driver(
        "[[device]]
        mig = true
        [[device.instance]]
        gpu_instance = 11
        [[device.instance]]
        gpu_instance = 2
        placement = { start = 4, size = 4 }",
    );
    let device = driver.nvml.device_by_index(0).unwrap();
    let second = gpu_instance_start(&device, 2).unwrap();
    assert_eq!(second, 4);
    let none = gpu_instance_start(&device, 3);
    assert!(matches!(none, Err(NvmlError::NotFound)), "{none:?}");
}
