//! The labels of a node, which its cloud and its provisioner set.

use std::collections::BTreeMap;
use std::io;

use serde::Deserialize;
use thiserror::Error;
use tokio::runtime;

use crate::api;
use crate::options::ApiServer;

/// The form of metadata alone. A server that cannot leave out the rest sends all of it.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io, application/json";

/// What the API server has of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its ID at its cloud, like `aws:///us-east-1a/i-0a1b`; empty if it has none.
    pub provider_id: String,
}

/// The node cannot be read.
#[derive(Debug, Error)]
#[error("cannot get node {node}: {reason}")]
pub struct NodeError {
    node: String,
    reason: String,
}

impl Node {
    /// Reads a node. Blocks for some seconds at most.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer, or the account must not get nodes.
    pub fn read(server: &ApiServer, node: &str) -> Result<Self, NodeError> {
        request(server, node, "", "application/json")
    }

    /// Reads the labels of a node that was read before. Blocks for some seconds at most.
    ///
    /// # Errors
    /// Returns an error if the API server does not answer, or the account must not get nodes.
    pub fn read_labels(&self, server: &ApiServer, node: &str) -> Result<Self, NodeError> {
        // What the server has cached is new enough, and metadata is a tenth of the object.
        let Self { labels, .. } = request(server, node, "?resourceVersion=0", METADATA)?;
        Ok(Self { labels, provider_id: self.provider_id.clone() })
    }

    fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        let Object { metadata, spec } = serde_json::from_slice(body)?;
        Ok(Self { labels: metadata.labels, provider_id: spec.provider_id })
    }
}

/// Reads a node in one of the forms that are accepted.
fn request(
    server: &ApiServer,
    node: &str,
    query: &str,
    accept: &'static str,
) -> Result<Node, NodeError> {
    let failed = |reason: String| NodeError { node: node.to_owned(), reason };
    if !api::is_name(node) {
        return Err(failed("invalid name".to_owned()));
    }
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error: io::Error| failed(error.to_string()))?;
    let path = format!("/api/v1/nodes/{node}{query}");
    let body = runtime.block_on(api::get_as(server, &path, accept));
    let body = body.map_err(|error| failed(error.to_string()))?;
    Node::parse(&body).map_err(|error| failed(error.to_string()))
}

/// The members of a node that are read.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Spec {
    #[serde(default, rename = "providerID")]
    provider_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_provider_of_a_node_are_read() {
        let body = br#"{"kind":"Node","metadata":{"name":"n","labels":{"topology.kubernetes.io/region":"us-east-1"}},
            "spec":{"providerID":"aws:///us-east-1a/i-0a1b"},"status":{}}"#;
        let node = Node::parse(body).unwrap();
        assert_eq!(node.labels["topology.kubernetes.io/region"], "us-east-1");
        assert_eq!(node.provider_id, "aws:///us-east-1a/i-0a1b");
        assert_eq!(Node::parse(br#"{"metadata":{}}"#).unwrap(), Node::default());
        assert!(Node::parse(b"{}").is_err());
    }
}
