//! Components of a GPU: fans, links, MIG instances.

use nvml_wrapper::enum_wrappers::nv_link::ErrorCounter;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::structs::device::FieldId;

use crate::Driver;

#[test]
fn fans_and_sensors_follow_the_script() {
    let driver = Driver::with(
        "[[device]]
        [[device.phase]]
        fans_percent = [40, 104]
        memory_temperature_c = 71
        pcie_replays = 3
        power_limit_w = 650
        [[device]]",
    );
    let device = driver.device(0);
    assert_eq!(device.num_fans().unwrap(), 2);
    assert_eq!([0, 1].map(|fan| device.fan_speed(fan).unwrap()), [40, 104]);
    assert!(matches!(device.fan_speed(2), Err(NvmlError::InvalidArg)));
    assert_eq!(device.enforced_power_limit().unwrap(), 650_000);
    assert_eq!(device.power_management_limit_default().unwrap(), 700_000);
    let fields = device.field_values_for(&[FieldId(82), FieldId(94)]).unwrap().into_iter();
    let values: Vec<_> = fields.map(|value| value.unwrap().value.unwrap()).collect();
    assert_eq!(values, [SampleValue::U32(71), SampleValue::U64(3)]);

    assert!(matches!(driver.device(1).num_fans(), Err(NvmlError::NotSupported)));
    assert!(matches!(driver.device(1).fan_speed(0), Err(NvmlError::NotSupported)));
}

/// The wrapper queries the first link only.
#[test]
fn links_share_traffic() {
    let driver = Driver::with(
        "[[device]]
        nvlinks = 4
        [[device.phase]]
        for_ms = 10000
        nvlink_tx_mib_s = 400
        nvlink_rx_mib_s = 40
        nvlink_errors = [{ link = 0, replay = 3, crc = 5 }]
        [[device]]
        architecture = 'blackwell'
        nvlinks = 1
        [[device.phase]]
        nvlink_errors = [{ link = 0, replay = 3, recovery = 2 }]",
    );
    driver.at(2_000);
    let fields = |device| {
        let ids = [91, 138, 139, 161, 162, 163, 215].map(FieldId);
        let values = driver.device(device).field_values_for(&ids).unwrap().into_iter();
        values.map(|value| value.unwrap().value.ok()).collect::<Vec<_>>()
    };
    let large = |value| Some(SampleValue::U64(value));
    let kibibytes = |mebibytes: u64| large(mebibytes << 10);
    let count = |count| Some(SampleValue::U32(count));
    assert_eq!(
        fields(0),
        [count(4), kibibytes(200), kibibytes(20), large(3), large(0), large(5), None]
    );
    assert_eq!(fields(1), [count(1), kibibytes(0), kibibytes(0), None, None, None, large(2)]);
    let counter = driver.device(0).link_wrapper_for(0).error_counter(ErrorCounter::DlReplay);
    assert!(matches!(counter, Err(NvmlError::NotSupported)));
}

#[test]
fn mig_instances_exist_for_their_time() {
    let driver = Driver::with(
        "[[device]]
        mig = true
        [[device.instance]]
        uuid = 'MIG-a'
        gpu_instance = 9
        memory_total_mib = 9856
        memory_used_mib = 2048
        sm = 80
        tensor = 40
        dram = 20
        [[device.instance]]
        at_ms = 1000
        for_ms = 1000
        [[device]]",
    );
    let device = driver.device(0);
    let instance = device.mig_device_by_index(0).unwrap();
    assert_eq!(instance.uuid().unwrap(), "MIG-a");
    let memory = instance.memory_info().unwrap();
    assert_eq!((memory.total >> 20, memory.used >> 20), (9_856, 2_048));
    assert!(instance.mig_is_mig_device_handle().unwrap());
    assert_eq!(instance.mig_parent_device().unwrap().uuid().unwrap(), device.uuid().unwrap());
    assert!(matches!(instance.power_usage(), Err(NvmlError::NotSupported)));
    assert!(matches!(instance.utilization_rates(), Err(NvmlError::NotSupported)));

    let metrics = [GpmMetricId::SmUtil, GpmMetricId::AnyTensorUtil, GpmMetricId::DramBwUtil];
    let first = device.gpm_mig_sample(9).unwrap();
    driver.at(500);
    let second = device.gpm_mig_sample(9).unwrap();
    let reported = gpm_metrics_get(&driver.nvml, &first, &second, &metrics).unwrap();
    let values: Vec<_> = reported.into_iter().map(|metric| metric.unwrap().value).collect();
    assert_eq!(values, [80.0, 40.0, 20.0]);
    assert!(matches!(device.gpm_mig_sample(1), Err(NvmlError::InvalidArg)));

    let brief = |ms| {
        driver.at(ms);
        device.mig_device_by_index(1).map(drop)
    };
    assert!(matches!(brief(999), Err(NvmlError::NotFound)));
    assert!(brief(1_000).is_ok());
    let handle = device.mig_device_by_index(1).unwrap();
    assert!(matches!(brief(2_000), Err(NvmlError::NotFound)));
    assert!(matches!(handle.uuid(), Err(NvmlError::InvalidArg)));
    assert!(matches!(device.mig_device_by_index(2), Err(NvmlError::NotFound)));

    assert_eq!(device.mig_device_count().unwrap(), 7);
    assert_eq!(driver.device(1).mig_device_count().unwrap(), 0);
    assert!(matches!(driver.device(1).mig_device_by_index(0), Err(NvmlError::NotSupported)));
}
