//! Boundaries within the crates, beside the layers: what is pure, and which modules do not know of others.

use super::modules::modules;
use super::{all_files, edges_of};
use crate::repository::read;

/// Crates that compute only: the same input gives the same output, at any time and on any machine.
const PURE: [&str; 8] = [
    "collector/alerts/src",
    "collector/attribution/src",
    "collector/bill/src",
    "collector/meter/src",
    "collector/plan/src",
    "collector/savings/src",
    "collector/terminal/src",
    "collector/work/src",
];

/// What those crates must not use: files, network, threads, clocks, environment and logs.
const IMPURE: [&str; 9] = [
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "tokio",
    "tracing",
];

/// Modules, and others that must not be used there.
const SEPARATE: [(&str, &[&str]); 13] = [
    // A source does not know of another.
    ("collector/sources/src/live", &["mapping"]),
    ("collector/sources/src/mapping", &["live"]),
    ("collector/logs/src/nvidia_smi", &["metric_log", "demo"]),
    ("collector/logs/src/metric_log", &["nvidia_smi", "demo"]),
    ("collector/logs/src/log", &["nvidia_smi", "metric_log", "demo"]),
    // What is sent does not depend on how.
    ("collector/otlp/src/encode", &["delivery"]),
    ("collector/otlp/src/delivery", &["encode", "experiment"]),
    // Prices do not know of alerts; phases of neither.
    ("collector/meter/src/price", &["alert", "gpu.rs"]),
    ("collector/meter/src/phase.rs", &["price", "alert", "money.rs"]),
    // Parts of the engine do not know of those that use them.
    ("collector/engine/src/sampler", &["pipeline", "policies", "gateway"]),
    ("collector/engine/src/pipeline", &["gateway"]),
    ("collector/engine/src/policies", &["sampler", "gateway"]),
    ("collector/engine/src/gateway", &["sampler", "policies"]),
];

#[test]
fn pure_crates_use_no_system() {
    let all = all_files();
    let source = |path: &str| all.iter().any(|file| file == path).then(|| read(path));
    let mut problems = Vec::new();
    for root in PURE {
        let tree = modules(&format!("{root}/lib.rs"), &source);
        assert!(!tree.is_empty(), "no crate in {root}");
        for module in &tree {
            let imported = module.imports.iter().map(|import| (&import.path, import.line));
            let used = module.paths.iter().map(|(path, line)| (path, *line));
            for (path, line) in imported.chain(used) {
                let path = path.join("::");
                if IMPURE.iter().any(|name| path == *name || path.starts_with(&format!("{name}::")))
                {
                    problems.push(format!("{}:{line} uses {path}", module.file));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn separate_modules_do_not_use_each_other() {
    let all = all_files();
    let source = |path: &str| all.iter().any(|file| file == path).then(|| read(path));
    let mut problems = Vec::new();
    for (module, others) in SEPARATE {
        assert!(all.iter().any(|file| file.starts_with(module)), "no module {module}");
        let (crate_root, _) = module.split_once("/src/").unwrap();
        let root = format!("{crate_root}/src/lib.rs");
        let edges = edges_of(&root, &source);
        for edge in edges.iter().filter(|edge| is_in(&edge.from, module)) {
            let other = others.iter().find(|other| {
                is_in(&edge.to, &format!("{crate_root}/src/{}", other.trim_end_matches(".rs")))
            });
            problems.extend(other.map(|_| edge.to_string()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Whether a file is a module or in it.
fn is_in(file: &str, module: &str) -> bool {
    let module = module.trim_end_matches(".rs");
    file.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}
