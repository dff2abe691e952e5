//! Where evidence is found on a node.

use std::fmt;
use std::path::PathBuf;

/// Where evidence is found. Each place is optional: without it, that evidence is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The kubelet's socket for `PodResources`. Mount its directory: a mounted socket is dead after a restart of the
    /// kubelet.
    pub kubelet: Option<PathBuf>,
    /// The API server, for claims of dynamic resource allocation.
    pub api: Option<ApiServer>,
    /// The name of the node in Kubernetes: its slices only are requested.
    pub node: Option<String>,
    /// The pods of the node at the API server, for what is known of them besides their GPUs.
    pub pods: Option<PodSource>,
    /// The process file system of the host's PID namespace.
    pub proc: Option<PathBuf>,
    /// The directory of the logs of pods, whose names contain the UIDs of pods.
    pub pod_logs: Option<PathBuf>,
    /// The directory of job-mapping files, as for dcgm-exporter: one per GPU, named by its index.
    pub job_mapping: Option<PathBuf>,
    /// The directory of the files that Slurm's prolog writes: one per job.
    pub jobs: Option<PathBuf>,
    /// The pod of this process. It holds no GPU, although its claim may have administrative access to all of them.
    pub own_pod: Option<PodName>,
}

impl Options {
    /// The kubelet's socket unless it has another root directory.
    pub const KUBELET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";
    /// The process file system.
    pub const PROC: &str = "/proc";
    /// Where the kubelet keeps the logs of pods.
    pub const POD_LOGS: &str = "/var/log/pods";
}

/// The usual places on a Kubernetes node, without the API server and without jobs.
impl Default for Options {
    fn default() -> Self {
        Self {
            kubelet: Some(Self::KUBELET.into()),
            api: None,
            node: None,
            pods: None,
            proc: Some(Self::PROC.into()),
            pod_logs: Some(Self::POD_LOGS.into()),
            job_mapping: None,
            jobs: None,
            own_pod: None,
        }
    }
}

/// The name of a pod; as text, `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The pods of a node at an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSource {
    /// The API server.
    pub server: ApiServer,
    /// The name of the node: its pods only are requested.
    pub node: String,
    /// Keys of the labels of pods that are read.
    pub labels: Vec<String>,
}

/// An API server, and the files of the account that reads from it. Files are read for each request: tokens rotate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// Its host name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The file of the bearer token.
    pub token: PathBuf,
    /// The file of the certificates that its own is checked with.
    pub authority: PathBuf,
}

impl ApiServer {
    /// The files of a service account in a pod.
    const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

    /// The API server that the environment of a pod names (`KUBERNETES_SERVICE_HOST`, `KUBERNETES_SERVICE_PORT`); `None`
    /// if it names none.
    #[must_use]
    pub fn of_pod(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let host = variable("KUBERNETES_SERVICE_HOST").filter(|host| !host.is_empty())?;
        let port = variable("KUBERNETES_SERVICE_PORT")?.parse().ok()?;
        let file = |name| PathBuf::from(Self::ACCOUNT).join(name);
        Some(Self { host, port, token: file("token"), authority: file("ca.crt") })
    }
}
