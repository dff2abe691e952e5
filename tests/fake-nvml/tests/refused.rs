//! Scripts that cannot be used are refused in one clear message: `refused/*.toml`, each with its
//! message beside it.

use std::error::Error;
use std::fs;
use std::path::Path;

use fake_nvml::Model;

#[test]
fn each_wrong_script_is_refused_with_its_message() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refused");
    let mut seen = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let error = Model::load(&path).expect_err(&path.display().to_string());
        let mut said = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            said = format!("{said}: {source}");
            cause = source.source();
        }
        let said = said.replace(&format!("{}/", folder.display()), "");
        let expected = fs::read_to_string(path.with_extension("err")).unwrap();
        assert_eq!(said.trim(), expected.trim(), "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 5, "only {seen} wrong scripts found");
}

#[test]
fn the_example_is_understood() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("example.toml");
    let model = Model::load(&path).unwrap();
    assert_eq!(model.devices.len(), 2);
    assert_eq!((model.faults.len(), model.xids.len()), (4, 1));
}
