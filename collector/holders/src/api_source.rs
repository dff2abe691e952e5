//! What claims need of the API server: the devices of the node, and which claims are for administration.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::StatusCode;
use phasemeter_meter::units::{Nanos, Timestamp};

use crate::access::Access;
use crate::api::{ApiError, get, is_name};
use crate::assignments::Problem;
use crate::claims::{Catalog, DeviceKey, MAX_CLAIMS, SliceFollower};
use crate::options::ApiServer;

/// How long the first list of slices is awaited, so that a poll has the GPUs of claims at once: longer than a request
/// may take.
const AWAITED_FOR: Duration = Duration::from_secs(4);

/// How soon a failed request is repeated.
const RETRY: Nanos = Nanos::from_secs(30);

/// Claims that are read per poll.
const CLAIMS_PER_POLL: usize = 16;

/// The API server, from poll to poll.
#[derive(Debug)]
pub(crate) struct ApiSource {
    server: ApiServer,
    node: Option<String>,
    /// Followed from when the first container has a claim.
    slices: Option<SliceFollower>,
    claims_from: Timestamp,
    /// When each claim was last asked for.
    asked: BTreeMap<(String, String), Timestamp>,
    claims_failure: Option<Problem>,
}

impl ApiSource {
    pub(crate) const fn new(server: ApiServer, node: Option<String>) -> Self {
        Self {
            server,
            node,
            slices: None,
            claims_from: Timestamp::EPOCH,
            asked: BTreeMap::new(),
            claims_failure: None,
        }
    }

    /// Learns what is known of the GPUs of these devices and claims.
    pub(crate) async fn refresh(
        &mut self,
        now: Timestamp,
        devices: &BTreeSet<&DeviceKey>,
        claims: &BTreeSet<&(String, String)>,
        catalog: &mut Catalog,
        problems: &mut BTreeSet<Problem>,
    ) {
        if self.slices.is_none() && !devices.is_empty() {
            match SliceFollower::start(self.server.clone(), self.node.clone()) {
                Ok(slices) => {
                    slices.wait(AWAITED_FOR);
                    self.slices = Some(slices);
                }
                Err(error) => {
                    let (access, reason) = (Access::ListSlices, error.to_string());
                    problems.insert(Problem::Api { access, reason });
                }
            }
        }
        let Some(slices) = &self.slices else { return };
        if let Some(published) = slices.take() {
            catalog.take_published(published);
        }
        problems.extend(slices.problems());
        let version = slices.version();
        if let Some(version) = version.filter(|_| now >= self.claims_from) {
            self.read_claims(now, version, claims, catalog).await;
        }
        if claims.is_empty() {
            self.claims_failure = None;
        }
        problems.extend(self.claims_failure.clone());
    }

    /// Reads the status of claims: administrative access and shares. Without it, access is inferred and shares are
    /// unknown.
    async fn read_claims(
        &mut self,
        now: Timestamp,
        version: &str,
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
                "/apis/resource.k8s.io/{version}/namespaces/{namespace}/resourceclaims/{name}"
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
