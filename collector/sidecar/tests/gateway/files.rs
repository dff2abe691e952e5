//! Files of options that never end, or never begin: a gateway rejects them at once, by their name.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::process::rejection;

/// A FIFO without a writer, and a file that is too large for any option.
fn hostile(directory: &Path) -> [String; 3] {
    let at = |name: &str| directory.join(name).display().to_string();
    let (fifo, large) = (at("fifo"), at("large"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    File::create(&large).unwrap().set_len(1 << 40).unwrap();
    ["/dev/zero".to_owned(), fifo, large]
}

#[test]
fn file_without_an_end_is_rejected_by_every_option() {
    let directory = tempfile::tempdir().unwrap();
    for path in hostile(directory.path()) {
        let settings = format!("sizing={path}");
        for options in [
            &["--mapping", &path][..],
            &["--work-mapping", &path],
            &["--token-file", &path],
            &["--tls-certificate", &path, "--tls-key", &path],
            &["--policy-key", &path],
            &["--policy-settings", &settings],
            &["--alerts", &path],
            &["--state", &path],
        ] {
            let (status, log) = rejection("http://127.0.0.1:1", options);
            assert!(status.is_some_and(|status| status > 0), "{options:?}: {status:?} {log}");
            assert!(log.contains(&path) || options == ["--state", &path], "{options:?}: {log}");
        }
    }
}
