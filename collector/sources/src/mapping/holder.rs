//! Holders of a GPU or of a share of it, as labels name them: a container of a pod, a claim or a job.

/// A holder of a GPU or of a share of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Its name: `NAMESPACE/POD`, `claim NAMESPACE/NAME` or `job ID`.
    pub name: String,
    /// The UID of the pod, if it is known: a pod may have the name of an earlier one.
    pub uid: Option<String>,
    /// Its share, if one name can have several: the container, and the replica of the device.
    pub share: String,
}

impl Holder {
    /// The holder without the name of its share.
    pub(super) fn whole(&self) -> Self {
        Self { share: String::new(), ..self.clone() }
    }
}
