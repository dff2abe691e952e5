//! The limits of this process's control group, of version 1 or 2.

use std::path::Path;

use phasemeter_files::read_text;

/// The control groups of this process.
const GROUPS: &str = "/proc/self/cgroup";

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// Version 1 states no limit by a number of pages that no machine has.
const NO_LIMIT: u64 = 1 << 60;

/// The limits; `None` without one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct GroupLimits {
    /// Memory in bytes.
    pub(super) memory: Option<u64>,
    /// Processors.
    pub(super) cpus: Option<f64>,
}

/// The limits of this process.
pub(super) fn read() -> GroupLimits {
    of(|path| read_text(Path::new(path), MAX_BYTES).ok())
}

/// The lowest limits of its group and all above it. In a container these may be seen as the root.
fn of(file: impl Fn(&str) -> Option<String>) -> GroupLimits {
    let mut limits = GroupLimits::default();
    let groups = file(GROUPS).unwrap_or_default();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let has = |name: &str| controllers.split(',').any(|controller| controller == name);
        for above in Path::new(path).ancestors().filter_map(Path::to_str) {
            let group = |mount: &str| format!("{mount}/{}", above.trim_start_matches('/'));
            let value = |mount: &str, name: &str| {
                file(&format!("{}/{name}", group(mount).trim_end_matches('/')))
            };
            let number = |mount: &str, name: &str| value(mount, name)?.trim().parse::<u64>().ok();
            if controllers.is_empty() {
                limits.at_most_memory(number(MOUNT, "memory.max"));
                limits.at_most_cpus(value(MOUNT, "cpu.max").and_then(|max| quota(&max)));
            }
            if has("memory") {
                let mount = format!("{MOUNT}/memory");
                let memory = number(&mount, "memory.limit_in_bytes");
                limits.at_most_memory(memory.filter(|it| *it < NO_LIMIT));
            }
            if has("cpu") {
                let mount = format!("{MOUNT}/cpu");
                let quota = number(&mount, "cpu.cfs_quota_us");
                let period = number(&mount, "cpu.cfs_period_us");
                limits.at_most_cpus(quota.zip(period).and_then(|(quota, of)| ratio(quota, of)));
            }
        }
    }
    limits
}

impl GroupLimits {
    fn at_most_memory(&mut self, memory: Option<u64>) {
        self.memory = self.memory.into_iter().chain(memory).min();
    }

    fn at_most_cpus(&mut self, cpus: Option<f64>) {
        self.cpus = self.cpus.into_iter().chain(cpus).reduce(f64::min);
    }
}

/// The processors of `cpu.max`: `50000 100000` is half of one, and `max 100000` no limit.
fn quota(max: &str) -> Option<f64> {
    let (quota, period) = max.trim().split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

fn ratio(quota: u64, period: u64) -> Option<f64> {
    (period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(files: &[(&str, &str)]) -> GroupLimits {
        of(|path| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()))
    }

    #[test]
    fn lowest_limit_of_all_groups_above_counts() {
        let nested = limits(&[
            ("/proc/self/cgroup", "0::/kubepods/pod7/c\n"),
            ("/sys/fs/cgroup/kubepods/pod7/c/memory.max", "max\n"),
            ("/sys/fs/cgroup/kubepods/pod7/memory.max", "134217728\n"),
            ("/sys/fs/cgroup/kubepods/memory.max", "999999999\n"),
            ("/sys/fs/cgroup/kubepods/pod7/c/cpu.max", "50000 100000\n"),
            ("/sys/fs/cgroup/kubepods/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(nested, GroupLimits { memory: Some(128 << 20), cpus: Some(0.5) });
        let root =
            limits(&[("/proc/self/cgroup", "0::/\n"), ("/sys/fs/cgroup/memory.max", "4096")]);
        assert_eq!(root, GroupLimits { memory: Some(4_096), cpus: None });
    }

    #[test]
    fn version_1_is_read_and_garbage_is_no_limit() {
        let groups = "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/\n";
        let old = limits(&[
            ("/proc/self/cgroup", groups),
            ("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
            ("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "200000\n"),
            ("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(old, GroupLimits { memory: Some(512 << 20), cpus: Some(2.0) });
        let garbage = limits(&[
            ("/proc/self/cgroup", "x\n0::/a\n"),
            ("/sys/fs/cgroup/a/memory.max", "-7"),
            ("/sys/fs/cgroup/a/cpu.max", "1 0"),
        ]);
        assert_eq!(garbage, GroupLimits::default());
    }
}
