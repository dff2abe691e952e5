//! The surface of a WebAssembly file, read without compiling it: whether it is a component, and the
//! names it imports and exports.
//!
//! Must not depend on which names are allowed.

use wasmparser::{BinaryReaderError, Encoding, Parser, Payload};

use crate::error::LoadError;

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
    /// Returns [`LoadError::Unreadable`] if the file is not WebAssembly, or is truncated.
    pub fn parse(bytes: &[u8]) -> Result<Self, LoadError> {
        parse(bytes).map_err(|error| LoadError::Unreadable(error.to_string()))
    }
}

fn parse(bytes: &[u8]) -> Result<WasmInfo, BinaryReaderError> {
    let mut info = WasmInfo { is_component: false, imports: Vec::new(), exports: Vec::new() };
    // Components nest; only the outermost one counts.
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } if depth == 0 => {
                info.is_component = encoding == Encoding::Component;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ImportSection(section) if depth == 0 => {
                for import in section.into_imports() {
                    let module = import?.module.to_owned();
                    if !info.imports.contains(&module) {
                        info.imports.push(module);
                    }
                }
            }
            Payload::ExportSection(section) if depth == 0 => {
                for export in section {
                    // `phasemeter:policy/policy@0.1.0#describe`
                    if let Some((interface, _)) = export?.name.split_once('#')
                        && !interface.starts_with("cabi_post_")
                        && !info.exports.iter().any(|known| known == interface)
                    {
                        info.exports.push(interface.to_owned());
                    }
                }
            }
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    info.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    info.exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(info)
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
}
