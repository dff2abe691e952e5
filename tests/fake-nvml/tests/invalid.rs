//! Each invalid script in `invalid/*.toml` is rejected with the message in its `.err` file.

use std::error::Error;
use std::fs;
use std::path::Path;

use fake_nvml::Model;

#[test]
fn script_invalid_reports_expected_message() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/invalid");
    let mut seen = 0;
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let error = Model::load(&path).expect_err(&path.display().to_string());
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            message = format!("{message}: {source}");
            cause = source.source();
        }
        let message = message.replace(&format!("{}/", dir.display()), "");
        let expected = fs::read_to_string(path.with_extension("err")).unwrap();
        assert_eq!(message.trim(), expected.trim(), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 5, "only {seen} invalid scripts found");
}

#[test]
fn example_script_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("example.toml");
    let model = Model::load(&path).unwrap();
    assert_eq!(model.devices.len(), 3);
    assert_eq!((model.faults.len(), model.xids.len()), (6, 1));
}
