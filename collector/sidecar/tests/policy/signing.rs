//! `phasemeter policy sign`, `verify` and `compile`.

use std::fs;
use std::process::Command;

use super::project::PolicyProject;

/// The published key pair of RFC 8410, section 10.
pub(crate) const SECRET: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    -----END PRIVATE KEY-----\n";
pub(crate) const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
    -----END PUBLIC KEY-----\n";
/// Another public key: RFC 8032, 7.1, test 1.
const OTHER_KEY: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\n";

#[test]
fn verify_accepts_signed_and_rejects_changed_policies() {
    let project = PolicyProject::new();
    project.write("key.pem", SECRET);
    project.write("pub.pem", PUBLIC);
    project.write("other.txt", OTHER_KEY);
    let verify = |keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["--key", key]);
        project.policy(&["verify", "data-loading.wasm"].into_iter().chain(keys).collect::<Vec<_>>())
    };
    let (status, text) = verify(&["pub.pem"]);
    assert!(status == 65 && text.contains("not signed, although keys are configured"), "{text}");
    let (status, text) = project.policy(&["sign", "data-loading.wasm", "--key", "key.pem"]);
    let public = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
    assert_eq!((status, text), (0, format!("data-loading.wasm.sig: signed by {public}\n")));
    assert_eq!(fs::read(project.at("data-loading.wasm.sig")).unwrap().len(), 64);
    assert_eq!(verify(&["other.txt", "pub.pem"]).0, 0);
    let (status, text) = verify(&["other.txt"]);
    assert!(status == 65 && text.contains("not signed by any configured key"), "{text}");

    let mut wasm = fs::read(project.at("data-loading.wasm")).unwrap();
    wasm.push(0);
    fs::write(project.at("data-loading.wasm"), wasm).unwrap();
    assert_eq!(verify(&["pub.pem"]).0, 65);
}

/// Guarantee: a precompiled, signed artifact is used instead of compiling: it works without memory to
/// compile, and is not used unsigned.
#[test]
fn signed_precompiled_artifact_is_used() {
    let project = PolicyProject::new();
    project.write("key.pem", SECRET);
    project.write("pub.pem", PUBLIC);
    let demo = || {
        let out = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
            .args([
                "demo",
                "--format",
                "json",
                "--no-default-policies",
                "--policy",
                "data-loading.wasm",
            ])
            .args(["--policy-key", "pub.pem", "--policy-limit", "compile_memory_mib=1"])
            .args(["--policy-cache", "nothing-yet"])
            .current_dir(project.0.path())
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        report["policies"][0]["error"]["kind"].as_str().map(str::to_owned)
    };
    assert_eq!(project.policy(&["sign", "data-loading.wasm", "--key", "key.pem"]).0, 0);
    let (status, text) = project.policy(&["compile", "data-loading.wasm"]);
    assert!(status == 0 && text.starts_with("data-loading.aot: "), "{text}");
    assert_eq!(demo().as_deref(), Some("load.compile_limit"));
    let sign = ["sign", "data-loading.aot", "--machine-code", "--key", "key.pem"];
    assert_eq!(project.policy(&sign).0, 0);
    assert_eq!(demo(), None);
}

/// Guarantee: machine code is signed only if that is requested, whatever the name of its file, and a
/// signature of it is not that of a policy. Nothing else is signed as machine code.
#[test]
fn machine_code_is_signed_only_on_request() {
    let project = PolicyProject::new();
    project.write("key.pem", SECRET);
    project.write("pub.pem", PUBLIC);
    assert_eq!(project.policy(&["compile", "data-loading.wasm"]).0, 0);
    fs::copy(project.at("data-loading.aot"), project.at("renamed.wasm")).unwrap();
    for name in ["data-loading.aot", "renamed.wasm"] {
        let (status, text) = project.policy(&["sign", name, "--key", "key.pem"]);
        assert!(status == 65 && text.contains("machine code, not a policy"), "{text}");
        assert!(!project.at(&format!("{name}.sig")).exists());
    }
    let wasm = ["sign", "data-loading.wasm", "--machine-code", "--key", "key.pem"];
    let (status, text) = project.policy(&wasm);
    assert!(status == 65 && text.contains("not machine code"), "{text}");
    let (status, text) = project.policy(&["sign", "policy.txt", "--key", "key.pem"]);
    assert_eq!(status, 66, "{text}");
    let (status, text) = project.policy(&["sign", "key.pem", "--key", "key.pem"]);
    assert!(status == 65 && text.contains("load.unreadable"), "{text}");

    let sign = ["sign", "renamed.wasm", "--machine-code", "--key", "key.pem"];
    assert_eq!(project.policy(&sign).0, 0);
    let verify = |options: &[&str]| {
        project.policy(&[&["verify", "renamed.wasm", "--key", "pub.pem"], options].concat()).0
    };
    assert_eq!((verify(&["--machine-code"]), verify(&[])), (0, 65));
}

/// Guarantee: settings are signed under their name.
#[test]
fn settings_are_signed_under_their_name() {
    let project = PolicyProject::new();
    project.write("key.pem", SECRET);
    project.write("pub.pem", PUBLIC);
    project.write("a.json", "{}");
    assert_eq!(project.policy(&["sign", "a.json", "--key", "key.pem"]).0, 0);
    assert_eq!(project.policy(&["verify", "a.json", "--key", "pub.pem"]).0, 0);
    fs::rename(project.at("a.json"), project.at("b.json")).unwrap();
    fs::rename(project.at("a.json.sig"), project.at("b.json.sig")).unwrap();
    assert_eq!(project.policy(&["verify", "b.json", "--key", "pub.pem"]).0, 65);
    project.write("list.json", "[]");
    assert_eq!(project.policy(&["sign", "list.json", "--key", "key.pem"]).0, 65);
}
