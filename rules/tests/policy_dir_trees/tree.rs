//! Random trees of files as a policy directory, and which policies they approve.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::LazyLock;

use phasemeter_rules::digest::Digest;
use phasemeter_rules::policy_dir::LOCK;
use phasemeter_rules::signature::{PublicKey, SecretKey, Use, verify};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{KEY, OTHER_KEY, recommender};

/// Valid policies: two versions of one, and another.
pub(crate) static POLICIES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    [recommender("alfa", '1'), recommender("alfa", '2'), recommender("bravo", '1')]
});

/// Changes of a directory, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Changes(Vec<(&'static str, Content)>);

/// What happens to one file.
#[derive(Clone, Debug)]
enum Content {
    /// A valid policy, with no signature, a valid one, or one of another key.
    Policy(usize, Signature),
    /// The beginning of a valid policy, signed.
    Truncated(usize, usize),
    /// Settings, signed under the file's own name or another.
    Settings(&'static str, &'static str),
    /// A lock file of what the directory contains now, with the beginning of a line to remove.
    Lock(Option<&'static str>),
    Bytes(Vec<u8>),
    /// A sparse file of this size.
    Oversized(u64),
    Directory,
    Fifo,
    Socket,
    Link(&'static str),
    Mode(u32),
    /// Another user, if this one may do that.
    Owner(u32),
    Absent,
}

#[derive(Clone, Copy, Debug)]
enum Signature {
    None,
    Valid,
    Other,
    /// As machine code.
    OtherUse,
}

/// Names of the files, more likely ones several times.
pub(crate) const NAMES: [&str; 20] = [
    "a.wasm",
    "a.wasm",
    "b.wasm",
    "b.wasm",
    "c.wasm",
    "a.wasm.sig",
    "b.wasm.sig",
    "a.json",
    "a.json.sig",
    "b.json",
    "a.aot",
    "a.aot.sig",
    LOCK,
    LOCK,
    ".wasm",
    "..wasm",
    "-rf.wasm",
    "\u{1b}[2J.wasm",
    "new\nline.wasm",
    "\u{202e}msaw.wasm",
];

fn contents() -> impl Strategy<Value = Content> {
    let signature = || {
        select(vec![
            Signature::None,
            Signature::Valid,
            Signature::Valid,
            Signature::Valid,
            Signature::Other,
            Signature::OtherUse,
        ])
    };
    prop_oneof![
        8 => (0..3_usize, signature()).prop_map(|(policy, by)| Content::Policy(policy, by)),
        1 => (0..3_usize, 0..400_usize).prop_map(|(policy, end)| Content::Truncated(policy, end)),
        2 => (select(vec!["{}", "{\"k\": 1}", "[]", "{"]), select(vec!["a.json", "b.json"]))
            .prop_map(|(text, name)| Content::Settings(text, name)),
        3 => select(vec![None, Some("a.wasm"), Some("b.wasm")]).prop_map(Content::Lock),
        1 => vec(any::<u8>(), 0..200).prop_map(Content::Bytes),
        1 => select(vec![65, 1_025, (1 << 20) + 1, (128 << 20) + 1]).prop_map(Content::Oversized),
        1 => Just(Content::Directory),
        1 => Just(Content::Fifo),
        1 => Just(Content::Socket),
        2 => select(vec!["a.wasm", "b.wasm", "missing", ".", "/dev/zero", "/etc/passwd"])
            .prop_map(Content::Link),
        1 => select(vec![0o000, 0o200, 0o777]).prop_map(Content::Mode),
        1 => select(vec![0, 1_000]).prop_map(Content::Owner),
        3 => Just(Content::Absent),
    ]
}

/// The key of valid signatures.
pub(crate) fn key() -> PublicKey {
    KEY.parse::<SecretKey>().unwrap().public()
}

/// Changes of up to `length` files.
pub(crate) fn changes(length: usize) -> impl Strategy<Value = Changes> {
    vec((select(NAMES.to_vec()), contents()), 1..=length).prop_map(Changes)
}

impl Changes {
    /// Applies them.
    pub(crate) fn apply(&self, dir: &Path) {
        for (name, content) in &self.0 {
            apply(dir, name, content);
        }
    }
}

/// The policy with this digest, if the directory approves it under this name.
pub(crate) fn approved(dir: &Path, name: &str, digest: &str, signed: bool) -> bool {
    let policy = POLICIES.iter().find(|bytes| Digest::of(bytes).to_string() == digest);
    let Some(bytes) = policy else { return false };
    let lock = fs::symlink_metadata(dir.join(LOCK)).is_ok();
    let locked = regular(&dir.join(LOCK)).unwrap_or_default();
    let line = format!("{digest}  {name}");
    let is_locked = !lock || String::from_utf8_lossy(&locked).lines().any(|it| it == line);
    let signature = || regular(&dir.join(format!("{name}.sig")));
    let is_signed = || verify(&[key()], Use::Policy, bytes, signature().as_deref()).is_ok();
    is_locked && (!signed || is_signed())
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// A regular file, found without waiting for it.
fn regular(path: &Path) -> Option<Vec<u8>> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.is_file() && metadata.len() < 1 << 20 { fs::read(path).ok() } else { None }
}

fn apply(dir: &Path, name: &str, content: &Content) {
    let path = dir.join(name);
    let write = |name: &str, bytes: &[u8]| {
        remove(&dir.join(name));
        fs::write(dir.join(name), bytes).unwrap();
    };
    let signature = format!("{name}.sig");
    let key: SecretKey = KEY.parse().unwrap();
    match content {
        Content::Mode(mode) => {
            // Not of what a link leads to.
            if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            return;
        }
        Content::Owner(user) => {
            if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
                _ = chown(&path, Some(*user), None);
            }
            return;
        }
        _ => remove(&path),
    }
    match content {
        Content::Policy(policy, by) => {
            let bytes = &POLICIES[*policy];
            write(name, bytes);
            let other: SecretKey = OTHER_KEY.parse().unwrap();
            match by {
                Signature::None => {}
                Signature::Valid => write(&signature, &key.sign(Use::Policy, bytes)),
                Signature::Other => write(&signature, &other.sign(Use::Policy, bytes)),
                Signature::OtherUse => write(&signature, &key.sign(Use::MachineCode, bytes)),
            }
        }
        Content::Truncated(policy, end) => {
            let bytes = &POLICIES[*policy];
            let bytes = &bytes[..(*end).min(bytes.len())];
            write(name, bytes);
            write(&signature, &key.sign(Use::Policy, bytes));
        }
        Content::Settings(text, signed_name) => {
            write(name, text.as_bytes());
            write(&signature, &key.sign(Use::Settings(signed_name), text.as_bytes()));
        }
        Content::Lock(without) => {
            let mut text = String::new();
            for listed in ["a.wasm", "b.wasm", "c.wasm", "a.json", "b.json"] {
                if let Some(bytes) = regular(&dir.join(listed)).filter(|_| Some(listed) != *without)
                {
                    text += &format!("{}  {listed}\n", Digest::of(&bytes));
                }
            }
            write(LOCK, text.as_bytes());
        }
        Content::Bytes(bytes) => write(name, bytes),
        Content::Oversized(size) => File::create(&path).unwrap().set_len(*size).unwrap(),
        Content::Directory => fs::create_dir(&path).unwrap(),
        Content::Fifo => mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap(),
        Content::Socket => drop(UnixListener::bind(&path).unwrap()),
        Content::Link(target) => symlink(target, &path).unwrap(),
        Content::Mode(_) | Content::Owner(_) | Content::Absent => {}
    }
}
