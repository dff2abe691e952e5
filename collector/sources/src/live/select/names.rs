//! GPUs as NVIDIA's container runtime, device plugins and claims name them.

/// The directory whose files name the GPUs of a container, if it is the value of `NVIDIA_VISIBLE_DEVICES`.
pub const MOUNTED_DEVICES: &str = "/var/run/nvidia-container-devices";

/// The vendors of CDI devices end with this: `nvidia.com`, `k8s.device-plugin.nvidia.com`.
const VENDOR: &str = "nvidia.com";

/// The beginning of every UUID of a GPU.
pub(super) const UUID: &str = "GPU-";

/// The beginning of every UUID of a MIG instance.
const MIG: &str = "MIG-";

/// How a GPU is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuName {
    /// By its index.
    Index(u32),
    /// By its UUID or the beginning of it.
    Uuid(String),
    /// By a MIG instance of it.
    Mig {
        /// The instance.
        name: String,
        /// Its GPU, if the name has it: an index, or a UUID.
        gpu: Option<String>,
    },
    /// In no known way.
    Other(String),
}

/// What a value of `NVIDIA_VISIBLE_DEVICES` states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// The container has all GPUs whose devices it has: `all`.
    All,
    /// The runtime adds no GPU to the container: `none`, `void`. Something else may have, as a claim does.
    Nothing,
    /// These GPUs.
    Listed(Vec<GpuName>),
}

impl Visible {
    /// Parses a value; `None` if it is empty, as if there were none. `mounted` lists the files below
    /// [`MOUNTED_DEVICES`], by their path in it.
    #[must_use]
    pub fn parse(value: &str, mounted: impl FnOnce() -> Vec<String>) -> Option<Self> {
        match value.trim() {
            "" => None,
            "none" | "void" => Some(Self::Nothing),
            MOUNTED_DEVICES => Some(Self::of_names(mounted().iter().map(String::as_str))),
            list => Some(Self::of_names(list.split(','))),
        }
    }

    /// The GPUs with these names.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut listed = Vec::new();
        for name in names.into_iter().map(str::trim).filter(|name| !name.is_empty()) {
            match device(name) {
                Some("all") => return Self::All,
                Some(name) if !name.is_empty() => listed.push(GpuName::parse(name)),
                // Another device, or none.
                Some(_) | None => {}
            }
        }
        if listed.is_empty() { Self::Nothing } else { Self::Listed(listed) }
    }
}

impl GpuName {
    /// Parses the name of one GPU.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        let name = name.trim();
        let mig = |gpu: Option<&str>| {
            let gpu = gpu.map(str::to_owned);
            Self::Mig { name: name.to_owned(), gpu }
        };
        if let Ok(index) = name.parse() {
            return Self::Index(index);
        }
        if let Some(instance) = name.strip_prefix(MIG) {
            // `MIG-GPU-UUID/3/0` until driver 470, a UUID of its own since.
            let gpu = instance.split('/').next().filter(|gpu| gpu.starts_with(UUID));
            return mig(gpu);
        }
        if let Some((gpu, instance)) = name.split_once(':')
            && [gpu, instance].iter().all(|part| part.parse::<u32>().is_ok())
        {
            return mig(Some(gpu));
        }
        if name.starts_with(UUID) {
            // Device plugins number the replicas of a shared GPU: `GPU-UUID::7`.
            let uuid = name.split_once("::").map_or(name, |(uuid, _)| uuid);
            return Self::Uuid(uuid.to_owned());
        }
        Self::Other(name.to_owned())
    }
}

/// The name of a GPU, without vendor and class if it is that of a CDI device, `nvidia.com/gpu=0`, or a file of one,
/// `cdi/nvidia.com/gpu/0`; `None` if it is a device of another class.
fn device(name: &str) -> Option<&str> {
    let file = name.strip_prefix("cdi/").and_then(|file| {
        let (vendor, rest) = file.split_once('/')?;
        let (class, name) = rest.split_once('/')?;
        Some((vendor, class, name))
    });
    let qualified = || {
        let (kind, name) = name.split_once('=')?;
        let (vendor, class) = kind.split_once('/')?;
        Some((vendor, class, name))
    };
    match file.or_else(qualified) {
        Some((vendor, class, name)) if vendor.ends_with(VENDOR) => (class == "gpu").then_some(name),
        _ => Some(name),
    }
}
