//! The surface of a WebAssembly file, read without compiling it: whether it is a component, and the
//! names it imports and exports.
//!
//! Anyone may have written the file, so the number and length of names are limited.

use std::collections::HashSet;

use wasmparser::{BinaryReaderError, Encoding, Parser, Payload};

use crate::error::LoadError;

/// The most imports or exports. A policy has a handful; language runtimes add some dozens.
const MAX_NAMES: usize = 1_000;

/// The most bytes of their names.
const MAX_NAME_BYTES: usize = 64 << 10;

/// The surface of a WebAssembly file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmInfo {
    /// Whether it is a component; otherwise it is a core module.
    pub is_component: bool,
    /// Imported names; for a core module, the modules it imports from.
    pub imports: Vec<String>,
    /// Exported names; for a core module, the interfaces of its functions.
    pub exports: Vec<String>,
}

impl WasmInfo {
    /// Parses the section headers, imports and exports of a file.
    ///
    /// # Errors
    /// Returns [`LoadError::Unreadable`] if the file is not WebAssembly, or is truncated, and
    /// [`LoadError::NotAPolicy`] if it has too many imports or exports.
    pub fn parse(bytes: &[u8]) -> Result<Self, LoadError> {
        let mut imports = Names::default();
        let mut exports = Names::default();
        let is_component = parse(bytes, &mut imports, &mut exports).map_err(|stop| match stop {
            Stop::Invalid(error) => LoadError::Unreadable(error.to_string()),
            Stop::TooMany => {
                let kib = MAX_NAME_BYTES >> 10;
                LoadError::NotAPolicy(format!(
                    "more than {MAX_NAMES} imports or exports, or {kib} KiB of their names"
                ))
            }
        })?;
        Ok(Self { is_component, imports: imports.distinct, exports: exports.distinct })
    }
}

/// Why parsing ends early.
enum Stop {
    Invalid(BinaryReaderError),
    TooMany,
}

impl From<BinaryReaderError> for Stop {
    fn from(error: BinaryReaderError) -> Self {
        Self::Invalid(error)
    }
}

/// Distinct names in order, of a limited number of entries.
#[derive(Default)]
struct Names<'a> {
    distinct: Vec<String>,
    known: HashSet<&'a str>,
    entries: usize,
    bytes: usize,
}

impl<'a> Names<'a> {
    /// Counts an entry whose names have this many bytes.
    fn count(&mut self, bytes: usize) -> Result<(), Stop> {
        self.entries += 1;
        self.bytes += bytes;
        let fits = self.entries <= MAX_NAMES && self.bytes <= MAX_NAME_BYTES;
        if fits { Ok(()) } else { Err(Stop::TooMany) }
    }

    /// Adds the name of an entry.
    fn add(&mut self, name: &'a str, bytes: usize) -> Result<(), Stop> {
        self.count(bytes)?;
        if self.known.insert(name) {
            self.distinct.push(name.to_owned());
        }
        Ok(())
    }
}

/// Collects imports and exports. Returns whether the file is a component.
fn parse<'a>(
    bytes: &'a [u8],
    imports: &mut Names<'a>,
    exports: &mut Names<'a>,
) -> Result<bool, Stop> {
    let mut is_component = false;
    // Components nest; only the outermost one counts.
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } if depth == 0 => {
                is_component = encoding == Encoding::Component;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ImportSection(section) if depth == 0 => {
                for import in section.into_imports() {
                    let import = import?;
                    imports.add(import.module, import.module.len() + import.name.len())?;
                }
            }
            Payload::ExportSection(section) if depth == 0 => {
                for export in section {
                    let name = export?.name;
                    // `phasemeter:policy/policy@0.1.0#describe`
                    let interface = name.split_once('#').map(|(interface, _)| interface);
                    match interface.filter(|interface| !interface.starts_with("cabi_post_")) {
                        Some(interface) => exports.add(interface, name.len())?,
                        None => exports.count(name.len())?,
                    }
                }
            }
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let name = import?.name.name;
                    imports.add(name, name.len())?;
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let name = export?.name.name;
                    exports.add(name, name.len())?;
                }
            }
            _ => {}
        }
    }
    Ok(is_component)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> WasmInfo {
        WasmInfo::parse(&wat::parse_str(text).unwrap()).unwrap()
    }

    #[test]
    fn core_module_lists_each_module_and_interface_once() {
        let info = parse(
            r#"(module
                (import "a:b/c@0.1.0" "one" (func))
                (import "a:b/c@0.1.0" "two" (func))
                (import "env" "three" (func))
                (func (export "d:e/f@0.1.0#one"))
                (func (export "d:e/f@0.1.0#two"))
                (func (export "cabi_post_d:e/f@0.1.0#one"))
                (func (export "plain")))"#,
        );
        let expected = WasmInfo {
            is_component: false,
            imports: vec!["a:b/c@0.1.0".to_owned(), "env".to_owned()],
            exports: vec!["d:e/f@0.1.0".to_owned()],
        };
        assert_eq!(info, expected);
    }

    #[test]
    fn nested_components_and_modules_are_ignored() {
        let info = parse(
            r#"(component
                (import "a:b/first@0.1.0" (instance))
                (core module
                    (import "inner" "f" (func))
                    (func (export "inner:i/i@0.1.0#f")))
                (component
                    (import "inner:i/import@0.1.0" (instance $i))
                    (core module)
                    (export "inner:i/export@0.1.0" (instance $i)))
                (import "a:b/last@0.1.0" (instance $last))
                (export "d:e/f@0.1.0" (instance $last)))"#,
        );
        let expected = WasmInfo {
            is_component: true,
            imports: vec!["a:b/first@0.1.0".to_owned(), "a:b/last@0.1.0".to_owned()],
            exports: vec!["d:e/f@0.1.0".to_owned()],
        };
        assert_eq!(info, expected);
    }

    #[test]
    fn number_and_length_of_names_are_limited() {
        let imports = |count: usize, module: &str| {
            let import = |at| format!(r#"(import "{module}" "{at}" (func))"#);
            let imports = (0..count).map(import).collect::<String>();
            WasmInfo::parse(&wat::parse_str(format!("(module {imports})")).unwrap())
        };
        let rejected = |info: Result<WasmInfo, LoadError>| match info {
            Err(LoadError::NotAPolicy(why)) => why.starts_with("more than 1000 imports or exports"),
            _ => false,
        };
        assert_eq!(imports(MAX_NAMES, "env").unwrap().imports, ["env"]);
        assert!(rejected(imports(MAX_NAMES + 1, "env")));
        assert!(rejected(imports(66, &"m".repeat(1_000))));
        let exports = |count: usize| {
            let export = |at| format!(r#"(export "{at}" (func 0))"#);
            let exports = (0..count).map(export).collect::<String>();
            WasmInfo::parse(&wat::parse_str(format!("(module (func) {exports})")).unwrap())
        };
        assert!(exports(MAX_NAMES).is_ok());
        assert!(rejected(exports(MAX_NAMES + 1)));
    }
}
