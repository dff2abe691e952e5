//! The formats of evidence, for the fuzz targets: each is read from bytes of others.

use prost::Message;

use crate::cgroup::Groups;
use crate::claims::{ClaimStatus, published_after, published_in};
use crate::device_id::PluginDevice;
use crate::jobs::{MAX_GPUS, jobs_of, parse_prolog};
use crate::kubelet::messages::{AllocatableResourcesResponse, ListPodResourcesResponse};
use crate::kubelet::{Listing, replicas};
use crate::pod_logs;
use crate::pods::{pods_of_events, pods_of_list};

/// A format of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Format {
    List,
    Allocatable,
    ResourceSlices,
    SliceEvents,
    ResourceClaim,
    PodList,
    PodEvents,
    ControlGroups,
    Prolog,
    JobMapping,
    PodLogs,
    DeviceId,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 12] = [
        Self::List,
        Self::Allocatable,
        Self::ResourceSlices,
        Self::SliceEvents,
        Self::ResourceClaim,
        Self::PodList,
        Self::PodEvents,
        Self::ControlGroups,
        Self::Prolog,
        Self::JobMapping,
        Self::PodLogs,
        Self::DeviceId,
    ];

    /// Maximum number of entries in this many bytes. Only a list of GPUs has ranges, `0-63`.
    #[must_use]
    pub const fn max_entries(self, bytes: usize) -> usize {
        match self {
            Self::Prolog => 1 + MAX_GPUS,
            _ => bytes,
        }
    }

    /// Reads evidence. Returns its entries as text; `None` if the format is another one.
    #[must_use]
    pub fn read(self, bytes: &[u8]) -> Option<Vec<String>> {
        let text = || std::str::from_utf8(bytes).ok();
        match self {
            Self::List => {
                let listing = Listing::of(ListPodResourcesResponse::decode(bytes).ok()?);
                let devices = listing.devices.iter().map(|entry| format!("{entry:?}"));
                Some(devices.chain(listing.claimed.iter().map(|it| format!("{it:?}"))).collect())
            }
            Self::Allocatable => {
                let counted = replicas(&AllocatableResourcesResponse::decode(bytes).ok()?);
                Some(counted.iter().map(|entry| format!("{entry:?}")).collect())
            }
            Self::ResourceSlices => {
                Some(published_in(bytes)?.iter().map(|entry| format!("{entry:?}")).collect())
            }
            Self::SliceEvents => published_after(bytes),
            Self::ResourceClaim => {
                let status = ClaimStatus::parse(bytes)?;
                let administered = status.administered.iter().map(|entry| format!("{entry:?}"));
                Some(
                    administered
                        .chain(status.consumed.iter().map(|it| format!("{it:?}")))
                        .collect(),
                )
            }
            Self::PodList => Some(pods_of_list(bytes)?.collect()),
            Self::PodEvents => pods_of_events(bytes),
            Self::ControlGroups => {
                let groups = Groups::parse(text()?);
                Some(groups.pod.into_iter().chain(groups.job).collect())
            }
            Self::Prolog => {
                let (job, gpus) = parse_prolog(text()?)?;
                let gpus = gpus.iter().map(ToString::to_string);
                Some(std::iter::once(job.id).chain(gpus).collect())
            }
            Self::JobMapping => Some(jobs_of(bytes)),
            Self::PodLogs => {
                let names: Vec<String> = text()?.lines().map(ToOwned::to_owned).collect();
                let logs = pod_logs::PodLogs::of(&names, |_| None);
                Some(logs.names.into_keys().collect())
            }
            Self::DeviceId => Some(vec![PluginDevice::parse(text()?)?.name.to_string()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The seeds of the fuzz target reach what they are for.
    #[test]
    fn each_seed_is_of_its_format() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/seeds/holders");
        let read = |name: &str, format: Format| format.read(&fs::read(dir.join(name)).unwrap());
        let seeds = [
            ("list", Format::List, 3),
            ("replicas", Format::List, 4),
            ("claims", Format::List, 2),
            ("allocatable", Format::Allocatable, 1),
            ("slices", Format::ResourceSlices, 4),
            ("slices-v1beta1", Format::ResourceSlices, 2),
            ("slice-events", Format::SliceEvents, 2),
            ("claim", Format::ResourceClaim, 2),
            ("pod-list", Format::PodList, 3),
            ("pod-events", Format::PodEvents, 4),
            ("cgroup", Format::ControlGroups, 2),
            ("prolog", Format::Prolog, 3),
            ("prolog-range", Format::Prolog, 65),
            ("job-mapping", Format::JobMapping, 2),
            ("pod-logs", Format::PodLogs, 4),
            ("device-id", Format::DeviceId, 1),
        ];
        for (name, format, entries) in seeds {
            assert_eq!(read(name, format).map(|it| it.len()), Some(entries), "{name}");
        }
    }
}
