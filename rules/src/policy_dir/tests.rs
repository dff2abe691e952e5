//! Policy directories with files of any kind.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, mknodat};

use super::*;

fn policy_dir(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn candidates(dir: &tempfile::TempDir) -> Vec<Result<Candidate, Box<Unreadable>>> {
    read(dir.path()).unwrap().into_iter().map(CandidateSource::read).collect()
}

/// Per candidate, its bytes or its error.
fn outcomes(dir: &tempfile::TempDir) -> Vec<String> {
    let outcome = |candidate: Result<Candidate, Box<Unreadable>>| match candidate {
        Ok(candidate) => String::from_utf8(candidate.bytes.into_owned()).unwrap(),
        Err(unreadable) => unreadable.error.to_string(),
    };
    candidates(dir).into_iter().map(outcome).collect()
}

#[test]
fn candidate_includes_files_beside_it() {
    let dir = policy_dir(&[
        ("a.wasm", "x"),
        ("a.json", r#"{"k": 1}"#),
        ("a.json.sig", "r"),
        ("a.wasm.sig", "s"),
        ("a.aot", "c"),
        ("a.aot.sig", "t"),
        ("notes.txt", ""),
    ]);
    let all = candidates(&dir);
    let [Ok(a)] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((a.bytes.as_ref(), a.approval.locked), (b"x".as_slice(), None));
    assert_eq!(a.approval.signature.as_deref(), Some(b"s".as_slice()));
    assert_eq!(a.approval.settings_signature.as_deref(), Some(b"r".as_slice()));
    let settings = a.settings_file.as_ref().unwrap();
    assert_eq!((settings.name.as_str(), settings.bytes.len()), ("a.json", 8));
    assert_eq!(a.artifact.as_ref().unwrap().bytes, b"c");
}

#[test]
fn lock_file_lists_policies_and_settings() {
    let of = |text: &str| Digest::of(text.as_bytes());
    let lock = format!("{}  a.wasm\n{} *a.json\n{}  gone.wasm\n", of("x"), of("{}"), of(""));
    let dir = policy_dir(&[("a.wasm", "x"), ("b.wasm", "y"), (LOCK, &lock)]);
    let all = candidates(&dir);
    let [Ok(a), Ok(b), Err(gone)] = all.as_slice() else { panic!("{all:?}") };
    let both = Locked { policy: Some(of("x")), settings: Some(of("{}")) };
    assert_eq!(a.approval.locked, Some(both));
    assert_eq!(b.approval.locked, Some(Locked::default()));
    assert_eq!(gone.error.kind(), "load.unreadable");
}

#[test]
fn invalid_lock_file_locks_nothing_and_is_not_printed() {
    let digest = Digest::of(b"x");
    let twice = format!("{digest}  a.wasm\n{digest}  a.wasm");
    for (lock, line) in [
        ("\nsecret  a.wasm\n", 2),
        (&format!("{digest}  ../secret.wasm"), 1),
        (&format!("{digest}  /etc/secret"), 1),
        (&format!("{digest}  "), 1),
        (&format!("{digest} a.wasm"), 1),
        (&twice, 2),
    ] {
        let dir = policy_dir(&[("a.wasm", "x"), (LOCK, lock)]);
        let all = outcomes(&dir);
        let [error] = all.as_slice() else { panic!("{lock}: {all:?}") };
        assert!(error.contains(&format!("policies.lock:{line}: invalid line")), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn file_size_is_limited() {
    let dir = policy_dir(&[("a.wasm", "")]);
    let path = dir.path().join("a.wasm");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(128 << 20).unwrap();
    assert_eq!(candidate(&path).unwrap().bytes.len(), 128 << 20);
    file.set_len((128 << 20) + 1).unwrap();
    let error = candidate(&path).unwrap_err().error.to_string();
    assert!(error.contains("larger than 128 MiB"), "{error}");
    file.set_len(0).unwrap();
    for (name, limit) in [("a.json", "1 MiB"), ("a.wasm.sig", "1024 bytes")] {
        let beside = File::create(dir.path().join(name)).unwrap();
        beside.set_len((1 << 20) + 1).unwrap();
        let error = candidate(&path).unwrap_err().error.to_string();
        assert!(error.contains(&format!("{name}: larger than {limit}")), "{error}");
        fs::remove_file(dir.path().join(name)).unwrap();
    }
}

#[test]
fn only_missing_files_are_ignored() {
    let dir = policy_dir(&[("a.wasm", "x")]);
    let path = dir.path().join("a.wasm");
    assert!(candidate(&path).is_ok());
    fs::create_dir(dir.path().join("a.json")).unwrap();
    assert!(candidate(&path).is_err(), "a directory is not a settings file");
}

#[test]
fn link_to_nowhere_is_not_ignored() {
    for name in ["a.json", "a.wasm.sig", LOCK] {
        let dir = policy_dir(&[("a.wasm", "x")]);
        symlink("nowhere", dir.path().join(name)).unwrap();
        let all = candidates(&dir);
        assert!(matches!(all.as_slice(), [Err(_)]), "{name}: {all:?}");
    }
}

/// Opening a FIFO would otherwise wait for a writer.
#[test]
fn fifo_is_rejected_whatever_its_name() {
    for name in ["b.wasm", "b.json", "b.wasm.sig", "b.json.sig", "b.aot", "b.aot.sig", LOCK] {
        let dir = policy_dir(&[("a.wasm", "a"), ("b.wasm", "b"), ("b.aot", "b")]);
        let fifo = dir.path().join(name);
        _ = fs::remove_file(&fifo);
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let all = outcomes(&dir);
        assert!(all.last().unwrap().contains("not a regular file"), "{name}: {all:?}");
        assert!(name == LOCK || all[0] == "a", "{name}: {all:?}");
        assert!(check_file(&fifo).is_err());
    }
}

#[test]
fn number_of_policies_is_limited() {
    let dir = tempfile::tempdir().unwrap();
    for index in (0..MAX_POLICIES + 2).rev() {
        fs::write(dir.path().join(format!("{index:03}.wasm")), index.to_string()).unwrap();
    }
    let all = outcomes(&dir);
    assert_eq!(all.len(), MAX_POLICIES + 1);
    let last = MAX_POLICIES - 1;
    assert_eq!(all[last], last.to_string(), "the first by name are read");
    assert!(all[MAX_POLICIES].contains("2 policies"), "{}", all[MAX_POLICIES]);
}

/// Scenario: the writer of a directory links settings to a file that is not theirs.
/// Guarantee: it is not read, and no message has a part of it.
#[test]
fn links_out_of_the_directory_are_not_read() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("secret.json"), r#"{"token": "s3cret"}"#).unwrap();
    let dir = policy_dir(&[("a.wasm", "x"), ("b.wasm", "y")]);
    symlink(home.path().join("secret.json"), dir.path().join("a.json")).unwrap();
    let read = candidates(&dir);
    let error = read[0].as_ref().unwrap_err().error.to_string();
    assert!(error.contains("a.json") && !error.contains("token"), "{error}");
    assert_eq!(read[1].as_ref().unwrap().bytes, &b"y"[..]);
    // The operator may name a policy by any link, but not the files beside it.
    let linked = home.path().join("linked.wasm");
    symlink(dir.path().join("b.wasm"), &linked).unwrap();
    assert_eq!(candidate(&linked).unwrap().bytes, &b"y"[..]);
    symlink(home.path().join("secret.json"), dir.path().join("b.json")).unwrap();
    candidate(&dir.path().join("b.wasm")).unwrap_err();
}

#[test]
fn other_owners_are_found() {
    let dir = policy_dir(&[("a.wasm", "x"), ("a.json", "{}")]);
    let user = geteuid();
    assert_eq!(owners_but(dir.path(), user).unwrap(), BTreeSet::new());
    // As root really another owner; else by pretending to be another user.
    let (user, owner) = match user.is_root() {
        true => {
            std::os::unix::fs::chown(dir.path().join("a.json"), Some(12_345), None).unwrap();
            (user, 12_345)
        }
        false => (Uid::from_raw(user.as_raw() + 1), user.as_raw()),
    };
    assert_eq!(owners_but(dir.path(), user).unwrap(), BTreeSet::from([owner]));
}
