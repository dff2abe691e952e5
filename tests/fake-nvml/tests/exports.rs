//! The shared library exports every name that NVML clients look up.

use std::collections::BTreeSet;
use std::fs;

use fake_nvml::{Fake, SYMBOLS};
use object::{Object, ObjectSymbol};

#[test]
fn library_exports_every_listed_symbol() {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::install(dir.path(), "").unwrap();
    let bytes = fs::read(fake.library()).unwrap();
    let library = object::File::parse(&*bytes).unwrap();
    let defined = library.dynamic_symbols().filter(ObjectSymbol::is_definition);
    let exported: BTreeSet<&str> = defined.filter_map(|symbol| symbol.name().ok()).collect();

    assert_eq!(SYMBOLS.lines().count(), 428);
    let missing: Vec<&str> = SYMBOLS.lines().filter(|name| !exported.contains(name)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
}
