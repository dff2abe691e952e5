//! Reads from the API server what claims need: the devices of the node, and which claims are for administration.

use std::collections::{BTreeMap, BTreeSet};

use http::StatusCode;
use phasemeter_meter::units::{Nanos, Timestamp};

use crate::access::Access;
use crate::api::{ApiError, get, is_name};
use crate::assignments::Problem;
use crate::claims::{Catalog, DeviceKey, MAX_CLAIMS};
use crate::options::ApiServer;

/// How often slices are read while nothing is missing.
const REFRESH_EVERY: Nanos = Nanos::from_secs(300);

/// How soon slices are read again if a device is missing: a driver publishes it before it is allocated. As long as no other
/// device is missing, each time is twice as late as the one before, up to [`REFRESH_EVERY`].
const MISSING_AGAIN: Nanos = Nanos::from_secs(5);

/// How soon a failed request is repeated.
const RETRY: Nanos = Nanos::from_secs(30);

/// Claims that are read per poll.
const CLAIMS_PER_POLL: usize = 16;

/// Versions of the API, newest first.
const VERSIONS: [&str; 3] = ["v1", "v1beta2", "v1beta1"];

/// The API server, from poll to poll.
#[derive(Debug)]
pub(crate) struct ApiSource {
    server: ApiServer,
    node: Option<String>,
    version: &'static str,
    read: Option<Timestamp>,
    slices_from: Timestamp,
    /// The devices that were missing, when slices are read for them, and how long after that again.
    missing: BTreeSet<DeviceKey>,
    missing_from: Timestamp,
    missing_again: Nanos,
    claims_from: Timestamp,
    /// When each claim was last asked for.
    asked: BTreeMap<(String, String), Timestamp>,
    failure: Option<Problem>,
    claims_failure: Option<Problem>,
}

impl ApiSource {
    pub(crate) fn new(server: ApiServer, node: Option<String>) -> Self {
        Self {
            server,
            // A name of another form would not be the only condition.
            node: node.filter(|node| is_name(node)),
            version: VERSIONS[0],
            read: None,
            slices_from: Timestamp::EPOCH,
            missing: BTreeSet::new(),
            missing_from: Timestamp::EPOCH,
            missing_again: MISSING_AGAIN,
            claims_from: Timestamp::EPOCH,
            asked: BTreeMap::new(),
            failure: None,
            claims_failure: None,
        }
    }

    /// Reads what is missing to know the GPUs of these devices and claims.
    pub(crate) async fn refresh(
        &mut self,
        now: Timestamp,
        devices: &BTreeSet<&DeviceKey>,
        claims: &BTreeSet<&(String, String)>,
        catalog: &mut Catalog,
        problems: &mut BTreeSet<Problem>,
    ) {
        let missing = devices.iter().filter(|device| !catalog.knows(device));
        let missing: BTreeSet<DeviceKey> = missing.map(|device| (*device).clone()).collect();
        if !missing.is_subset(&self.missing) {
            (self.missing_from, self.missing_again) = (now, MISSING_AGAIN);
        }
        let is_missing = !missing.is_empty() && now >= self.missing_from;
        self.missing = missing;
        let is_old = self.read.is_none_or(|read| now.since(read) >= REFRESH_EVERY);
        if (is_missing || (is_old && !devices.is_empty())) && now >= self.slices_from {
            self.missing_from = now + self.missing_again;
            self.missing_again = self.missing_again.saturating_mul(2).min(REFRESH_EVERY);
            self.read_slices(now, catalog).await;
        }
        if self.failure.is_none() && now >= self.claims_from {
            self.read_claims(now, claims, catalog).await;
        }
        if claims.is_empty() {
            self.claims_failure = None;
        }
        problems.extend(self.failure.iter().chain(&self.claims_failure).cloned());
    }

    async fn read_slices(&mut self, now: Timestamp, catalog: &mut Catalog) {
        let mut failed = None;
        for version in VERSIONS.into_iter().skip_while(|version| *version != self.version) {
            let mut path = format!("/apis/resource.k8s.io/{version}/resourceslices");
            if let Some(node) = &self.node {
                path = format!("{path}?fieldSelector=spec.nodeName%3D{node}");
            }
            let reason = match get(&self.server, &path).await {
                Ok(body) => match catalog.take_slices(&body) {
                    Ok(()) => {
                        (self.version, self.failure) = (version, None);
                        (self.read, self.slices_from) = (Some(now), now + MISSING_AGAIN);
                        return;
                    }
                    Err(error) => error.to_string(),
                },
                // An older server.
                Err(error @ ApiError::Status { status: StatusCode::NOT_FOUND }) => {
                    failed = Some(error.to_string());
                    continue;
                }
                Err(error) => error.to_string(),
            };
            failed = Some(reason);
            break;
        }
        self.slices_from = now + RETRY;
        let access = Access::ListSlices;
        self.failure = failed.map(|reason| Problem::Api { access, reason });
    }

    /// Reads the status of claims: administrative access and shares. Without it, access is inferred and shares are
    /// unknown.
    async fn read_claims(
        &mut self,
        now: Timestamp,
        claims: &BTreeSet<&(String, String)>,
        catalog: &mut Catalog,
    ) {
        self.asked.retain(|claim, asked| claims.contains(claim) && now.since(*asked) < RETRY);
        let is_due = |claim: &&&(String, String)| {
            !catalog.has_status(claim) && !self.asked.contains_key(**claim) && is_path(claim)
        };
        let due: Vec<_> =
            claims.iter().take(MAX_CLAIMS).filter(is_due).take(CLAIMS_PER_POLL).collect();
        for claim in due {
            let (namespace, name) = claim;
            let path = format!(
                "/apis/resource.k8s.io/{}/namespaces/{namespace}/resourceclaims/{name}",
                self.version
            );
            self.asked.insert((**claim).clone(), now);
            match get(&self.server, &path).await {
                Ok(body) => catalog.take_claim((**claim).clone(), &body),
                Err(ApiError::Status { status: StatusCode::NOT_FOUND }) => {}
                Err(error) => {
                    let (access, reason) = (Access::GetClaims, error.to_string());
                    self.claims_failure = Some(Problem::Api { access, reason });
                    self.claims_from = now + RETRY;
                    return;
                }
            }
            self.claims_failure = None;
        }
    }
}

/// Whether the names of a claim are those of an object: they become a path.
fn is_path((namespace, name): &(String, String)) -> bool {
    is_name(namespace) && is_name(name)
}
