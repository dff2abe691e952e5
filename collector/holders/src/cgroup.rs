//! The pod and the Slurm job of a process, by its control groups (`/proc/PID/cgroup`), versions 1 and 2.
//!
//! | path | of |
//! |---|---|
//! | `/kubepods/burstable/pod<UID>/<container>` | kubelet with the driver `cgroupfs` |
//! | `/kubepods.slice/kubepods-pod<UID with _>.slice/cri-containerd-<container>.scope` | kubelet with the driver `systemd` |
//! | `/system.slice/containerd.service/kubepods-pod<UID>.slice:cri-containerd:<container>` | the same, of an old containerd |
//! | `/slurm/uid_0/job_4/step_0/task_0`, `/system.slice/slurmstepd.scope/job_4/step_0/user/task_0` | Slurm |

/// What the control groups of a process name, and its environment if they name nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The UID of its pod. Of nested pods, that of the outermost: the kubelet of this machine runs it.
    pub(crate) pod: Option<String>,
    /// The ID of its Slurm job.
    pub(crate) job: Option<String>,
    /// The ID of its launcher's job. Users choose the environment of their processes, so all other evidence precedes it.
    pub(crate) launched: Option<String>,
}

impl Groups {
    /// Reads the text of `/proc/PID/cgroup`. Lines of other forms are ignored.
    pub(crate) fn parse(text: &str) -> Self {
        let paths = || text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        Self { pod: paths().find_map(pod), job: paths().find_map(job), launched: None }
    }
}

/// The UID in the part of a path that ends with `pod<UID>` or `pod<UID>.slice`.
fn pod(path: &str) -> Option<String> {
    path.split(['/', ':']).find_map(|part| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        let (before, uid) = part.rsplit_once("pod")?;
        let is_prefix = before.is_empty() || before.ends_with('-');
        is_prefix.then(|| uid.replace('_', "-")).filter(|uid| is_pod_uid(uid))
    })
}

/// Whether a text is the UID of a pod: a UUID, or the digest of a static pod's configuration.
pub(crate) fn is_pod_uid(text: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match text.len() {
        32 => text.bytes().all(is_hex),
        36 => text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => is_hex(byte),
        }),
        _ => false,
    }
}

/// The number in `job_<number>` below a part that names Slurm.
fn job(path: &str) -> Option<String> {
    let mut parts = path.split('/').skip_while(|part| !part.contains("slurm"));
    let number = parts.find_map(|part| part.strip_prefix("job_"))?;
    is_job_id(number).then(|| number.to_owned())
}

/// Whether a text is the ID of a Slurm job: a number.
pub(crate) fn is_job_id(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Each file in `tests/cgroups` is the control groups of a process; its first line is what they name.
    #[test]
    fn files_name_their_pod_and_job() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cgroups");
        let mut files = 0;
        for file in fs::read_dir(dir).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let (expected, text) = text.split_once('\n').unwrap();
            let groups = Groups::parse(text);
            let named = |name: &str, value: Option<String>| {
                value.map_or_else(String::new, |value| format!(" {name} {value}"))
            };
            let found = format!("#{}{}", named("pod", groups.pod), named("job", groups.job));
            assert_eq!(found, expected, "{}", path.display());
            files += 1;
        }
        assert!(files >= 16, "{files} files");
    }
}
