//! The committed builds of the default policies, as native code and interpreted.

use phasemeter_rules::digest::Digest;
use phasemeter_rules::embedded::DEFAULT_POLICIES;
use phasemeter_rules::host::{Candidate, Host, Options};
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::Policy;

use super::fleet::{fleet, fleet_window};
use super::{policies, support};

/// The names of the default policies, sorted.
fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = DEFAULT_POLICIES.iter().map(|policy| policy.name).collect();
    names.sort_unstable();
    names
}

/// A host that interprets policies, as builds without a compiler do.
fn interpreting_host() -> Host {
    let limits = support::patient();
    Host::new(Options { limits, interpreter: true, ..Options::default() }).unwrap()
}

/// Guarantee: `wasm-rules/dist` contains exactly the policies tested here, each in a file of its name.
#[test]
fn dist_contains_default_policies() {
    let policies = policies();
    let found: Vec<_> = policies.iter().map(|policy| policy.manifest().name.as_str()).collect();
    assert_eq!(found, names());
    let files: Vec<_> = policies.iter().map(Policy::file).collect();
    assert_eq!(files, names());
}

/// Guarantee: the digests by which default policies are known are those of their components. If not, run
/// `make policies`.
#[test]
fn recorded_digests_are_those_of_the_components() {
    for candidate in DEFAULT_POLICIES.iter().map(Candidate::from) {
        assert_eq!(candidate.embedded, Some(Digest::of(&candidate.bytes)), "{}", candidate.file);
    }
}

/// Scenario: every default policy, as native code and interpreted.
/// Guarantee: results and fuel are the same.
#[test]
fn interpreter_agrees_with_native_code() {
    let (window, request) = (fleet_window(&fleet()), support::request());
    let host = interpreting_host();
    for native in policies() {
        let name = native.file();
        let modules = support::default_policies();
        let (_, module) = modules.into_iter().find(|(file, _)| *file == name).unwrap();
        let interpreted = host.load(Candidate::new(name, module)).unwrap();
        let evaluate = |policy: &Policy| match policy.kind() {
            Kind::Recommender => {
                let evaluation = policy.recommend(&window).unwrap();
                (format!("{:?}", evaluation.result.unwrap()), evaluation.usage.fuel)
            }
            Kind::Pricer => {
                let evaluation = policy.quote(&request).unwrap();
                (format!("{:?}", evaluation.result.unwrap()), evaluation.usage.fuel)
            }
        };
        assert_eq!(evaluate(&native), evaluate(&interpreted), "{name}");
    }
}

/// Guarantee: the committed artifacts, which builds without a compiler embed, are what the committed
/// policies compile to. If not, run `make policies`.
#[test]
fn committed_artifacts_match_policies() {
    let host = interpreting_host();
    let dist = support::home().join("../wasm-rules/dist");
    for name in names() {
        let module = std::fs::read(dist.join(name).with_extension("wasm")).unwrap();
        let artifact = std::fs::read(dist.join("interpreted").join(name).with_extension("aot"));
        assert!(host.compile(&module).unwrap() == artifact.unwrap(), "{name}.aot is stale");
    }
}
