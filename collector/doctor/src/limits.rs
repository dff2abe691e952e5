//! What this process may use.

use phasemeter_terminal::number::tenths_of;
use rustix::process::{Resource, getrlimit};

use super::control_group::{self, GroupLimits};
use super::findings::{Findings, Topic};

/// Files that a run with a backend, a receiver and policies has open, with many to spare.
const FILES: u64 = 256;

/// What a run of some GPUs takes, in bytes; with its policies, some 40 MiB.
const MEMORY: u64 = 64 << 20;

/// Compares the limits with what a run needs.
#[must_use]
pub fn check() -> Findings {
    let mut findings = Findings::default();
    let files = getrlimit(Resource::Nofile).current;
    describe_files(files, &mut findings);
    let address_space = getrlimit(Resource::As).current;
    findings.fact(Topic::Limits, format!("address space: {}", in_mib(address_space)));
    describe_group(control_group::read(), &mut findings);
    findings
}

fn describe_files(files: Option<u64>, findings: &mut Findings) {
    let text = files.map_or_else(|| "unlimited".to_owned(), |files| files.to_string());
    findings.fact(Topic::Limits, format!("open files: {text}"));
    if files.is_some_and(|files| files < FILES) {
        findings.problem(format!(
            "limits: {text} open files; raise RLIMIT_NOFILE (`ulimit -n`, LimitNOFILE=) to {FILES} or more"
        ));
    }
}

fn describe_group(limits: GroupLimits, findings: &mut Findings) {
    let GroupLimits { memory, cpus } = limits;
    let cpus_text = cpus.map_or_else(|| "unlimited".to_owned(), |cpus| format!("{cpus} CPUs"));
    findings.fact(
        Topic::ControlGroup,
        format!("memory: {}, processor time: {cpus_text}", in_mib(memory)),
    );
    if memory.is_some_and(|memory| memory < MEMORY) {
        findings.problem(format!(
            "control group: {} of memory, so the kernel may end a run; give it {} or more",
            in_mib(memory),
            in_mib(Some(MEMORY))
        ));
    }
}

fn in_mib(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unlimited".to_owned(), |it| format!("{} MiB", tenths_of(it, 1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_below_the_needs_of_a_run_are_problems() {
        let problems = |files, memory| {
            let mut findings = Findings::default();
            describe_files(files, &mut findings);
            describe_group(GroupLimits { memory, cpus: Some(0.5) }, &mut findings);
            findings.problems.len()
        };
        assert_eq!(problems(None, None), 0);
        assert_eq!(problems(Some(FILES), Some(MEMORY)), 0);
        assert_eq!(problems(Some(64), Some(32 << 20)), 2);
    }
}
