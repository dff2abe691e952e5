//! The cloud that this machine is in: by variables that its container services set, by what cloud-init
//! recorded at the start of the machine, and by what the firmware names.
//!
//! A region in variables for the clients of a cloud, like `AWS_REGION`, may be another one; it counts in
//! a container service only, which sets it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::System;

type Detected = BTreeMap<&'static str, String>;

/// What cloud-init records of the machine, for every user.
const CLOUD_INIT: &str = "/run/cloud-init/instance-data.json";

/// What the firmware names.
const FIRMWARE: &str = "/sys/class/dmi/id/";

/// Clouds by name in cloud-init, with the platform of their machines.
const CLOUDS: [(&str, &str, &str); 6] = [
    ("aws", "aws", "aws_ec2"),
    ("azure", "azure", "azure.vm"),
    ("gce", "gcp", "gcp_compute_engine"),
    ("oracle", "oracle_cloud", "oracle_cloud_compute"),
    ("aliyun", "alibaba_cloud", "alibaba_cloud_ecs"),
    ("tencent", "tencent_cloud", "tencent_cloud_cvm"),
];

/// Files of the firmware, with a text that begins or ends one, and the cloud whose machines have it.
const NAMES: [(&str, &str, &str); 8] = [
    ("sys_vendor", "Amazon EC2", "aws"),
    // Older instances: a hypervisor that Amazon builds.
    ("bios_version", ".amazon", "aws"),
    ("product_name", "Google Compute Engine", "gcp"),
    ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "azure"),
    ("chassis_asset_tag", "OracleCloud.com", "oracle_cloud"),
    ("sys_vendor", "Alibaba Cloud", "alibaba_cloud"),
    ("product_name", "Alibaba Cloud ECS", "alibaba_cloud"),
    ("sys_vendor", "Tencent Cloud", "tencent_cloud"),
];

/// Detects the cloud. The platform of a pod is left out: on machines of a cloud it may be the cloud's
/// service or a cluster of its user.
pub(super) fn detect(system: &System<'_>, is_kubernetes: bool) -> Detected {
    if let Some(service) = service(system, is_kubernetes) {
        return service;
    }
    let recorded = recorded(system);
    let provider = recorded.get("cloud.provider").cloned().or_else(|| firmware(system));
    let Some(provider) = provider else { return recorded };
    let mut detected = recorded;
    let cloud = CLOUDS.into_iter().find(|(_, name, _)| *name == provider);
    if let Some((_, _, platform)) = cloud.filter(|_| !is_kubernetes) {
        detected.insert("cloud.platform", platform.to_owned());
    }
    // Machines of AWS name their type; before, they named the hypervisor.
    let product = system.text(&format!("{FIRMWARE}product_name"));
    if let Some(product) = product.filter(|it| provider == "aws" && is_instance_type(it)) {
        detected.insert("host.type", product);
    }
    detected.insert("cloud.provider", provider);
    detected
}

/// A service that runs containers, by the variables that it sets.
fn service(system: &System<'_>, is_kubernetes: bool) -> Option<Detected> {
    let is_ecs = ["ECS_CONTAINER_METADATA_URI_V4", "ECS_CONTAINER_METADATA_URI"];
    // Knative sets the latter in any cluster.
    let is_cloud_run = system.is_set("CLOUD_RUN_JOB")
        || !is_kubernetes && system.is_set("K_SERVICE") && system.is_set("K_CONFIGURATION");
    let domain = system.variable("CONTAINER_APP_ENV_DNS_SUFFIX").unwrap_or_default();
    let (provider, platform, region) = if is_ecs.iter().any(|name| system.is_set(name)) {
        ("aws", "aws_ecs", system.variable("AWS_REGION"))
    } else if is_cloud_run {
        ("gcp", "gcp_cloud_run", None)
    } else if let Some(place) = domain.strip_suffix(".azurecontainerapps.io") {
        let region = place.rsplit_once('.').map(|(_, region)| region.to_owned());
        ("azure", "azure.container_apps", region)
    } else {
        return None;
    };
    let known = [("cloud.provider", provider), ("cloud.platform", platform)];
    let known = known.map(|(key, value)| (key, value.to_owned()));
    Some(known.into_iter().chain(region.map(|region| ("cloud.region", region))).collect())
}

/// What cloud-init has recorded.
#[derive(Default, Deserialize)]
struct InstanceData {
    #[serde(default)]
    v1: Standard,
}

/// The keys that all clouds have.
#[derive(Default, Deserialize)]
struct Standard {
    cloud_name: Option<String>,
    region: Option<String>,
    availability_zone: Option<String>,
}

fn recorded(system: &System<'_>) -> Detected {
    let data = system.text(CLOUD_INIT).and_then(|text| serde_json::from_str(&text).ok());
    let InstanceData { v1: Standard { cloud_name, region, availability_zone } } =
        data.unwrap_or_default();
    let cloud = CLOUDS.into_iter().find(|(name, ..)| Some(*name) == cloud_name.as_deref());
    let Some((_, provider, _)) = cloud else { return Detected::new() };
    let found = [
        ("cloud.provider", Some(provider.to_owned())),
        ("cloud.region", region),
        ("cloud.availability_zone", availability_zone),
    ];
    let found = found.into_iter().filter_map(|(key, value)| Some((key, value?)));
    found.filter(|(_, value)| !value.is_empty()).collect()
}

/// The provider that the firmware names.
fn firmware(system: &System<'_>) -> Option<String> {
    let named = NAMES.into_iter().find(|(file, name, _)| {
        let text = system.text(&format!("{FIRMWARE}{file}")).unwrap_or_default();
        text == *name || name.starts_with('.') && text.ends_with(name)
    });
    named.map(|(.., provider)| provider.to_owned())
}

/// Like `p5.48xlarge`.
fn is_instance_type(text: &str) -> bool {
    let is_part = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(allowed)
    };
    let parts = text.split_once('.');
    parts.is_some_and(|(family, size)| is_part(family) && is_part(size))
}
