//! The labels of a node, which its cloud and its provisioner set.

use std::collections::BTreeMap;
use std::io;

use serde::Deserialize;
use thiserror::Error;
use tokio::runtime;

use crate::api;
use crate::options::ApiServer;

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
        let failed = |reason: String| NodeError { node: node.to_owned(), reason };
        if !api::is_name(node) {
            return Err(failed("invalid name".to_owned()));
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error: io::Error| failed(error.to_string()))?;
        let body = runtime.block_on(api::get(server, &format!("/api/v1/nodes/{node}")));
        let body = body.map_err(|error| failed(error.to_string()))?;
        Self::parse(&body).map_err(|error| failed(error.to_string()))
    }

    fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        let Object { metadata, spec } = serde_json::from_slice(body)?;
        Ok(Self { labels: metadata.labels, provider_id: spec.provider_id })
    }
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
