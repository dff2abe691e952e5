//! `phasemeter policy new` makes a project of each kind, in each language. Needs no tools of a language.

use std::fs;
use std::path::Path;

use crate::project::PolicyProject;

/// Copies of the SDK and of the contract, whose files `command/policy/template.rs` checks.
const COPIES: [&str; 2] = ["sdk", "wit"];

/// The paths of all files in a directory.
fn list(dir: &Path, at: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{at}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            list(&entry.path(), &format!("{path}/"), files);
        } else {
            files.push(path);
        }
    }
}

/// Guarantee: each project has these files, in which the placeholder of its name is replaced, and the file
/// that its build makes is named in `policy.json`.
#[test]
fn new_project_has_all_files_of_its_kind() {
    let project = PolicyProject::new();
    let mut made = String::new();
    let kinds: [&[&str]; 2] = [&[], &["--kind", "pricer"]];
    let languages = ["rust", "c", "js", "python"];
    let each = languages.into_iter().flat_map(|language| kinds.map(|kind| (language, kind)));
    for (language, kind) in each.chain([("rust", &["--example"][..])]) {
        let options = [&["--lang", language], kind].concat();
        let (status, text) = project.policy(&[&["new"], &options[..], &["team-2"]].concat());
        assert_eq!(status, 0, "{text}");
        let dir = project.at("team-2");
        let mut files = Vec::new();
        list(&dir, "", &mut files);
        files.sort();
        for file in &files {
            let text = fs::read(dir.join(file)).unwrap();
            let text = String::from_utf8_lossy(&text);
            assert!(!text.contains("my-policy") && !text.contains("my_policy"), "{file}");
        }
        let plan = fs::read(dir.join("policy.json")).unwrap();
        let plan: serde_json::Value = serde_json::from_slice(&plan).unwrap();
        made += &format!("{}: {}\n", options.join(" "), plan["wasm"].as_str().unwrap());
        for copy in COPIES.map(|copy| format!("{copy}/")) {
            if files.iter().any(|file| file.starts_with(&copy)) {
                files.retain(|file| !file.starts_with(&copy));
                files.push(copy);
            }
        }
        files.iter().for_each(|file| made += &format!("    {file}\n"));
        fs::remove_dir_all(dir).unwrap();
    }
    insta::assert_snapshot!(made);
}

/// Guarantee: a larger recommender exists in Rust only, and the others leave no directory.
#[test]
fn example_is_in_rust_only() {
    let project = PolicyProject::new();
    for language in ["c", "js", "python"] {
        let (status, text) = project.policy(&["new", "--lang", language, "--example", "other"]);
        assert!(status == 2 && text.contains("use --lang rust"), "{language}: {status}: {text}");
        assert!(!project.at("other").exists(), "{language}");
    }
}
