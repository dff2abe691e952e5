//! A WebAssembly file before anything compiles it: whether it is a component, what it imports.
//!
//! Only the names at its surface are read. This room must not know which names are good.

use std::borrow::Cow;

use wasmparser::{Encoding, Parser, Payload};

use crate::fault::{LoadFault, WORDS, plain};

/// What shows of a WebAssembly file from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Whether it is a component; else it is a core module.
    pub is_component: bool,
    /// The names that it imports; of a core module the modules that it imports from.
    pub imports: Vec<String>,
    /// The names that it exports; of a core module the interfaces of its functions.
    pub exports: Vec<String>,
}

impl Binary {
    /// Reads the surface of a file.
    ///
    /// # Errors
    /// `Unreadable` unless it is a WebAssembly file, whole as far as its sections tell.
    pub fn read(bytes: &[u8]) -> Result<Self, LoadFault> {
        survey(bytes).map_err(|error| LoadFault::Unreadable(error.to_string()))
    }
}

fn survey(bytes: &[u8]) -> Result<Binary, wasmparser::BinaryReaderError> {
    let mut binary = Binary { is_component: false, imports: Vec::new(), exports: Vec::new() };
    // Components nest; only the outermost shows.
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } if depth == 0 => {
                binary.is_component = encoding == Encoding::Component;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ImportSection(section) if depth == 0 => {
                for import in section.into_imports() {
                    let module = import?.module.to_owned();
                    if !binary.imports.contains(&module) {
                        binary.imports.push(module);
                    }
                }
            }
            Payload::ExportSection(section) if depth == 0 => {
                for export in section {
                    // `phasemeter:policy/policy@0.1.0#describe`
                    if let Some((interface, _)) = export?.name.split_once('#')
                        && !interface.starts_with("cabi_post_")
                        && !binary.exports.iter().any(|known| known == interface)
                    {
                        binary.exports.push(interface.to_owned());
                    }
                }
            }
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    binary.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    binary.exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(binary)
}

/// A component of these bytes: themselves, or the core module in them wrapped into one by the
/// component metadata that it carries.
pub(crate) fn componentize(bytes: &[u8]) -> Result<Cow<'_, [u8]>, LoadFault> {
    if Parser::is_component(bytes) {
        return Ok(bytes.into());
    }
    let encoder = wit_component::ComponentEncoder::default().validate(true).module(bytes);
    encoder.and_then(|mut encoder| encoder.encode()).map(Cow::from).map_err(|error| {
        LoadFault::NotAPolicy(plain(&format!("no component can be made of it: {error:#}"), WORDS))
    })
}
