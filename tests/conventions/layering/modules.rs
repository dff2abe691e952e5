//! The module tree of a crate: what each module defines, and which paths it names. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, tokens};

/// Reads a file by its path; `None` if there is none.
pub(super) type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// One `use` of one name.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name that it gets here; `*` for all.
    pub(super) name: String,
    /// Passed on to other modules, not just used here.
    pub(super) public: bool,
    pub(super) line: usize,
}

/// One module: a file, or a part of one.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Its path from the root of the repository.
    pub(super) file: String,
    /// Index of the module around it.
    pub(super) parent: Option<usize>,
    /// Indices of the modules in it.
    pub(super) children: BTreeMap<String, usize>,
    pub(super) items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// Paths outside of imports, with their lines. An identifier alone is one too.
    pub(super) paths: Vec<(Vec<String>, usize)>,
}

/// All modules of the crate whose root is `file`, parents first.
pub(super) fn modules(file: &str, read: Read<'_>) -> Vec<Module> {
    let mut tree = Vec::new();
    if let Some(source) = read(file) {
        let directory = file.rsplit_once('/').unwrap_or_default().0;
        add(&mut tree, file, directory, None, &tokens(&source), read);
    }
    tree
}

/// Adds a module and all in it; returns its index. Files of its children are in `directory`.
fn add(
    tree: &mut Vec<Module>,
    file: &str,
    directory: &str,
    parent: Option<usize>,
    body: &[Token],
    read: Read<'_>,
) -> usize {
    let index = tree.len();
    tree.push(Module { file: file.to_owned(), parent, ..Module::default() });
    let mut at = 0;
    let mut depth = 0_usize;
    while at < body.len() {
        let token = &body[at];
        let next = body.get(at + 1);
        match token.text.as_str() {
            "#" if is_test_attribute(&body[at..]) => {
                at = end_of_item(body, at);
                continue;
            }
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "use" => {
                let end = end_of_item(body, at);
                let public = at > 0 && (body[at - 1].is("pub") || body[at - 1].is(")"));
                let mut imports = Vec::new();
                expand(&body[at + 1..end], &[], &mut imports);
                for (path, name) in imports {
                    tree[index].imports.push(Import { path, name, public, line: token.line });
                }
                at = end;
                continue;
            }
            "mod" if depth == 0 => {
                let name = next.map(|name| name.text.clone()).unwrap_or_default();
                let inside = format!("{directory}/{name}");
                let end = end_of_item(body, at);
                let child = if body[at + 2].is(";") {
                    [format!("{inside}.rs"), format!("{inside}/mod.rs")].iter().find_map(|file| {
                        let source = read(file)?;
                        Some(add(tree, file, &inside, Some(index), &tokens(&source), read))
                    })
                } else {
                    Some(add(tree, file, &inside, Some(index), &body[at + 3..end - 1], read))
                };
                if let Some(child) = child {
                    tree[index].children.insert(name, child);
                }
                at = end;
                continue;
            }
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
            | "macro_rules"
                if depth == 0 =>
            {
                let named = if token.is("macro_rules") { body.get(at + 2) } else { next };
                if let Some(named) = named.filter(|named| !named.is("fn") && !named.is("unsafe")) {
                    tree[index].items.insert(named.text.clone());
                }
            }
            _ if token.is_identifier() && !(at > 0 && body[at - 1].is("::")) => {
                let (path, end) = path_at(body, at);
                tree[index].paths.push((path, token.line));
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    index
}

/// `#[cfg(test)]` and `#[test]`, and no `#![…]`.
fn is_test_attribute(from: &[Token]) -> bool {
    let texts: Vec<_> = from.iter().take(5).map(|token| token.text.as_str()).collect();
    matches!(texts[..], ["#", "[", "cfg", "(", "test"] | ["#", "[", "test", "]", ..])
}

/// The index behind an item, attributes before it included.
fn end_of_item(body: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in body.iter().enumerate().skip(start) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" => {
                depth = depth.saturating_sub(1);
                // `use a::{b};` and `const A: B = B { … };` go on.
                let goes_on = body.get(index + 1).is_some_and(|next| next.is(";"));
                if depth == 0 && !goes_on {
                    return index + 1;
                }
            }
            ";" if depth == 0 => return index + 1,
            _ => {}
        }
    }
    body.len()
}

/// A path that begins at an identifier, and the index behind it.
fn path_at(body: &[Token], start: usize) -> (Vec<String>, usize) {
    let mut path = vec![body[start].text.clone()];
    let mut at = start + 1;
    while at + 1 < body.len() && body[at].is("::") && body[at + 1].is_identifier() {
        path.push(body[at + 1].text.clone());
        at += 2;
    }
    (path, at)
}

/// Lists the names of one `use`, groups taken apart: each path, and the name it gets.
fn expand(tree: &[Token], prefix: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let mut path = prefix.to_vec();
    let mut name = None;
    let mut at = 0;
    while at < tree.len() {
        match tree[at].text.as_str() {
            "{" => {
                let end = end_of_item(tree, at);
                for part in split_at_commas(&tree[at + 1..end - 1]) {
                    expand(part, &path, found);
                }
                return;
            }
            "as" => name = tree.get(at + 1).map(|token| token.text.clone()),
            "*" => name = Some("*".to_owned()),
            "self" if !path.is_empty() => {}
            _ if tree[at].is_identifier() && name.is_none() => path.push(tree[at].text.clone()),
            _ => {}
        }
        at += 1;
    }
    if let Some(name) = name.or_else(|| path.last().cloned()) {
        found.push((path, name));
    }
}

fn split_at_commas(group: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_i32;
    group
        .split(|token| {
            depth += i32::from(token.is("{")) - i32::from(token.is("}"));
            depth == 0 && token.is(",")
        })
        .filter(|part| !part.is_empty())
        .collect()
}
