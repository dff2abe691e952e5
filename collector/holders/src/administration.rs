//! Claims for administration: the kubelet lists them with every GPU as if they held it. Only their status shows
//! administrative access.
//!
//! Without the status, a claim that has all devices of a pool is taken for one if other claims have some of them, and if
//! it is the only such claim. That is in doubt, and reported.

use std::collections::{BTreeMap, BTreeSet};

use crate::assignments::Problem;
use crate::claims::{Catalog, DeviceKey};
use crate::kubelet::{ClaimedDevice, ContainerName};
use crate::options::PodName;

type Claimed = (ContainerName, ClaimedDevice);

/// The devices of claims, without those for administration and those of this process.
pub(crate) fn holding<'l>(
    claimed: &'l BTreeSet<Claimed>,
    own_pod: Option<&PodName>,
    catalog: &Catalog,
    problems: &mut BTreeSet<Problem>,
) -> Vec<&'l Claimed> {
    let foreign: Vec<&Claimed> =
        claimed.iter().filter(|(container, _)| Some(&container.pod) != own_pod).collect();
    let doubtful = doubtful(&foreign, catalog);
    let is_held = |(container, it): &&Claimed| match catalog.is_administered(&it.claim, &it.device)
    {
        Some(is_administered) => !is_administered,
        None if doubtful.contains(&(&it.claim, it.device.pool())) => {
            let (namespace, claim) = &it.claim;
            problems.insert(Problem::Administration {
                claim: format!("{namespace}/{claim}"),
                pod: format!("{}/{}", container.pod.namespace, container.pod.name),
            });
            false
        }
        None => true,
    };
    foreign.into_iter().filter(is_held).collect()
}

/// A claim and a pool of devices, by driver and name.
type InPool<'l> = (&'l (String, String), (&'l str, &'l str));

/// The claims of unknown status that have all devices of a pool, if one only does and others have some.
fn doubtful<'l>(claimed: &[&'l Claimed], catalog: &Catalog) -> BTreeSet<InPool<'l>> {
    type Devices<'l> = BTreeMap<&'l (String, String), BTreeSet<&'l DeviceKey>>;
    let mut pools: BTreeMap<(&str, &str), Devices<'l>> = BTreeMap::new();
    for (_, it) in claimed {
        let claims = pools.entry(it.device.pool()).or_default();
        claims.entry(&it.claim).or_default().insert(&it.device);
    }
    let mut found = BTreeSet::new();
    for (pool, claims) in pools {
        let Some(size) = claims.values().flatten().next().and_then(|it| catalog.pool_size(it))
        else {
            continue;
        };
        let mut all = claims.iter().filter(|(claim, devices)| {
            let device = devices.first();
            let is_unknown = device.is_some_and(|it| catalog.is_administered(claim, it).is_none());
            devices.len() == size && is_unknown
        });
        if let (Some((claim, _)), None, true) = (all.next(), all.next(), claims.len() > 1) {
            found.insert((*claim, pool));
        }
    }
    found
}
