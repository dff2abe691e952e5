//! Shared by tests and benches, also of other crates: policies written as WebAssembly text, inputs
//! for them, and policies built from small crates.
#![allow(dead_code, reason = "each test uses a part")]

mod inputs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[allow(unused_imports, reason = "each test uses a part")]
pub(crate) use inputs::{request, window};
use phasemeter_rules::limits::Limits;
use wit_component::StringEncoding;
use wit_parser::{Resolve, WorldId, WorldItem};

/// A private key in PEM.
pub(crate) const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    -----END PRIVATE KEY-----\n";

/// Another private key.
pub(crate) const OTHER_KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n\
    -----END PRIVATE KEY-----\n";

/// The directory `rules`, from any crate of the workspace.
pub(crate) fn home() -> PathBuf {
    let is_root = |dir: &Path| dir.join("rules").join("wit").exists();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|dir| is_root(dir));
    root.unwrap().join("rules")
}

/// The default limits with a deadline so long that fuel runs out first, however busy the machine.
pub(crate) fn patient() -> Limits {
    Limits { deadline: Duration::from_secs(60), ..Limits::default() }
}

/// The policy of `tests/hostile/NAME.wat`.
pub(crate) fn hostile(name: &str) -> Vec<u8> {
    let text = fs::read_to_string(home().join(format!("tests/hostile/{name}.wat"))).unwrap();
    policy(&text)
}

/// The value of a header line `;; name: value`.
pub(crate) fn header<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let head = text.lines().take_while(|line| line.starts_with(";;"));
    head.filter_map(|line| line[2..].split_once(':'))
        .find_map(|(key, value)| (key.trim() == name).then(|| value.trim()))
}

/// A core module with component metadata: the fields in `text`, plus those of `tests/hostile/parts`
/// that its world requires and `text` does not define.
pub(crate) fn policy(text: &str) -> Vec<u8> {
    let (resolve, world) = world(header(text, "world").unwrap_or("recommender-policy"));
    let mut module = format!("(module\n{text}\n");
    let mut part = |name: &str| {
        let file = home().join(format!("tests/hostile/parts/{name}.wat"));
        module.push_str(&fs::read_to_string(&file).unwrap());
    };
    if !text.contains("(export \"memory\")") {
        part("memory");
    }
    if text.contains("$recommendation")
        || header(text, "world").is_none_or(|world| world != "newer")
    {
        part("recommendation");
    }
    for function in functions(&resolve, world) {
        let (_, name) = function.rsplit_once('#').unwrap_or(("", &function));
        if !text.contains(&format!("(export \"{function}\")")) {
            part(name);
        }
    }
    module.push(')');
    let mut bytes = wat::parse_str(&module).unwrap_or_else(|error| panic!("{text}\n{error}"));
    wit_component::embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8)
        .unwrap();
    bytes
}

fn world(name: &str) -> (Resolve, WorldId) {
    let mut resolve = Resolve::default();
    let contract = home().join("wit/v0.1");
    let path = home().join(format!("tests/hostile/worlds/{name}.wit"));
    let package = match fs::read_to_string(&path) {
        Ok(text) => {
            // A file may declare the contract's own package.
            if !text.starts_with("package phasemeter:policy") {
                resolve.push_dir(&contract).unwrap();
            }
            resolve.push_str(&path, &text).unwrap()
        }
        Err(_) => resolve.push_dir(&contract).unwrap().0,
    };
    let world = resolve.select_world(&[package], Some(name)).unwrap();
    (resolve, world)
}

/// The names under which a core module exports the functions of a world.
fn functions(resolve: &Resolve, world: WorldId) -> Vec<String> {
    let exports = resolve.worlds[world].exports.iter();
    exports
        .flat_map(|(key, item)| match item {
            WorldItem::Interface { id, .. } => {
                let interface = resolve.name_world_key(key);
                let names = resolve.interfaces[*id].functions.keys();
                names.map(|name| format!("{interface}#{name}")).collect::<Vec<_>>()
            }
            _ => vec![resolve.name_world_key(key)],
        })
        .collect()
}

/// Names and texts of the `.wat` files of a directory, by name.
pub(crate) fn wat_files(dir: &Path) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "wat"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Names and modules of the default policies, by name.
pub(crate) fn default_policies() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(home().join("../wasm-rules/dist")).unwrap();
    let mut modules: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    modules.sort();
    modules
}

/// A recommender with this name and version.
pub(crate) fn recommender(name: &str, version: char) -> Vec<u8> {
    recommender_with(name, version, "")
}

/// A recommender with this name and version. `fields` replace or extend the default ones.
pub(crate) fn recommender_with(name: &str, version: char, fields: &str) -> Vec<u8> {
    let size = name.len();
    policy(&format!(
        r#"(data (i32.const 512) "{name}")
        (data (i32.const 600) "{version}")
        (data (i32.const 1024)
          "\00\02\00\00\{size:02x}\00\00\00" "\58\02\00\00\01\00\00\00"
          "\58\02\00\00\01\00\00\00" "\00\00\00\00\00\00\00\00")
        (func (export "phasemeter:policy/policy@0.1.0#describe") (result i32)
          (i32.const 1024))
        {fields}"#
    ))
}

/// A recommender that reads nothing and recommends nothing: what every evaluation costs at least.
pub(crate) fn empty_recommender() -> Vec<u8> {
    recommender_with(
        "empty",
        '1',
        r#"(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
          (i32.const 1536))"#,
    )
}

/// A pricer that quotes $2 per hour. `plan` is the plan's number in the contract; `source` has at
/// most 16 bytes. The instructions in `quote` run first: the request's time is in `$time`; they may
/// store another rate at 4368, and must store the quote's expiry at 4424.
pub(crate) fn pricer(source: &str, plan: u8, quote: &str) -> Vec<u8> {
    let size = source.len();
    policy(&format!(
        r#";; world: pricer-policy
        (data (i32.const 4096) "{source}")
        (data (i32.const 4112) "2026-07-20")
        (data (i32.const 4352) "\00\00\00\00\00\00\00\00" "\01\00\00\00\00\00\00\00"
          "\00\94\35\77\00\00\00\00" "\{plan:02x}\00\00\00" "\00\10\00\00\{size:02x}\00\00\00"
          "\10\10\00\00\0a\00\00\00" "\00\00\00\00\00\00\00\00\00\00\00\00"
          "\00\00\00\00\00\00\00\00" "\01\00\00\00\00\00\00\00")
        (func (export "phasemeter:policy/pricer@0.1.0#quote-price")
          (param $request i32) (result i32) (local $time i64)
          (local.set $time (i64.load offset=48 (local.get $request)))
          {quote}
          (i32.const 4352))"#
    ))
}

/// The policy in `tests/guests`.
pub(crate) fn mirror() -> Vec<u8> {
    build_guest("tests/guests", "mirror")
}

/// Builds the policy crate in a directory of this crate.
///
/// # Panics
/// If it cannot be built, so that a test that needs it fails.
pub(crate) fn build_guest(dir: &str, name: &str) -> Vec<u8> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--target", "wasm32-unknown-unknown"])
        .arg("--manifest-path")
        .arg(home().join(dir).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        // Flags for the host target do not apply.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .unwrap();
    assert!(
        status.success(),
        "cannot build the guest; is the target missing? rustup target add wasm32-unknown-unknown"
    );
    fs::read(target.join(format!("wasm32-unknown-unknown/release/{name}.wasm"))).unwrap()
}
