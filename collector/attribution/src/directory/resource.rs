//! What the resource of a span says of GPUs.

/// A pod of Kubernetes, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// `k8s.pod.uid`.
    pub uid: Option<String>,
    /// `k8s.namespace.name`.
    pub namespace: Option<String>,
    /// `k8s.pod.name`.
    pub name: Option<String>,
}

impl Pod {
    pub(super) const fn is_named(&self) -> bool {
        self.uid.is_some() || self.name.is_some()
    }

    pub(super) fn full_name(&self) -> Option<(&str, &str)> {
        self.namespace.as_deref().zip(self.name.as_deref())
    }
}

/// Attributes of a resource that identify GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceIdentity<'a> {
    /// `hw.id`.
    pub hw_id: Option<&'a str>,
    /// `process.pid`.
    pub pid: Option<u32>,
    /// Its pod.
    pub pod: Option<&'a Pod>,
    /// `slurm.job.id`.
    pub job: Option<&'a str>,
    /// `host.name`.
    pub host: Option<&'a str>,
}
