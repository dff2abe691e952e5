//! IDs of GPUs among those of all hosts: a UUID by itself, any other ID on its host only.

/// The ID of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuId {
    id: String,
    /// The host, else the log, that has no other GPU with this ID; `None` if unknown.
    scope: Option<String>,
    is_uuid: bool,
}

impl GpuId {
    /// The GPU with this UUID.
    #[must_use]
    pub const fn uuid(uuid: String) -> Self {
        Self { id: uuid, scope: None, is_uuid: true }
    }

    /// The GPU with this ID on this host. An ID that contains a UUID needs no host.
    #[must_use]
    pub fn on_host(id: String, host: Option<String>) -> Self {
        let is_uuid = has_uuid(&id);
        Self { scope: host.filter(|_| !is_uuid), id, is_uuid }
    }

    /// The GPU with this value of a label for UUIDs, which may be one that is shorter than usual, or an ID.
    #[must_use]
    pub(super) fn labeled(value: String, host: Option<String>) -> Self {
        let is_uuid = PREFIXES.iter().any(|prefix| value.starts_with(prefix));
        if is_uuid { Self::uuid(value) } else { Self::on_host(value, host) }
    }

    /// States the log of an ID whose host is unknown.
    pub fn within(&mut self, log: &str) {
        if !self.is_uuid {
            self.scope.get_or_insert_with(|| log.to_owned());
        }
    }

    /// Its UUID.
    #[must_use]
    pub fn as_uuid(&self) -> Option<&str> {
        self.is_uuid.then_some(&*self.id)
    }

    /// Its ID as labels have it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its name, which no other GPU has: the UUID, else `HOST:ID`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.scope {
            Some(scope) => format!("{scope}:{}", self.id),
            None => self.id.clone(),
        }
    }
}

/// The beginnings of NVIDIA's UUIDs of GPUs and of MIG instances.
const PREFIXES: [&str; 2] = ["GPU-", "MIG-"];

/// Length of a UUID, and where its hyphens are.
const LENGTH: usize = 36;
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

fn has_uuid(text: &str) -> bool {
    let fits = |(index, byte): (usize, &u8)| match HYPHENS.contains(&index) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    text.as_bytes().windows(LENGTH).any(|window| window.iter().enumerate().all(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d6e";

    fn on(host: &str, id: &str) -> GpuId {
        GpuId::on_host(id.to_owned(), Some(host.to_owned()))
    }

    #[test]
    fn id_is_unique_on_its_host_unless_it_has_a_uuid() {
        for id in ["0", "GPU-0", "0000:3b:00.0", "/dev/nvidia0", &UUID[1..], "gpu"] {
            let [a, b] = ["a", "b"].map(|host| on(host, id));
            assert_ne!(a.name(), b.name(), "{id}");
            assert_eq!((a.as_uuid(), a.id()), (None, id));
        }
        for id in [UUID.to_owned(), format!("GPU-{UUID}"), format!("MIG-GPU-{UUID}/7/0")] {
            let [a, b] = ["a", "b"].map(|host| on(host, &id));
            assert_eq!((a.name(), a.as_uuid()), (b.name(), Some(&*id)));
        }
    }

    #[test]
    fn label_for_uuids_may_have_an_id() {
        let labeled = |value: &str| GpuId::labeled(value.to_owned(), Some("a".to_owned())).name();
        assert_eq!(labeled("GPU-7"), "GPU-7");
        assert_eq!(labeled("7"), "a:7");
    }

    #[test]
    fn log_qualifies_an_id_without_a_host() {
        let named = |mut id: GpuId| {
            id.within("a.txt");
            id.name()
        };
        assert_eq!(named(GpuId::on_host("0".to_owned(), None)), "a.txt:0");
        assert_eq!(named(on("node-1", "0")), "node-1:0");
        assert_eq!(named(GpuId::uuid(UUID.to_owned())), UUID);
    }
}
