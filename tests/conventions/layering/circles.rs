//! Which file uses names of which, and the circles in that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::modules::Module;

/// One use of a name that another file defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) name: String,
    pub(super) line: usize,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} uses {} of {}", self.from, self.line, self.name, self.to)
    }
}

/// The first edge of each pair of files.
///
/// A name counts where it is used, so passing it on with `pub use` makes no edge. A module is made of
/// the modules in it, so its use of them makes none either.
pub(super) fn edges(tree: &[Module]) -> Vec<Edge> {
    let mut found: BTreeMap<(&str, &str), Edge> = BTreeMap::new();
    for (index, module) in tree.iter().enumerate() {
        // An import that is neither used by name nor passed on brings methods of a trait.
        let unnamed = module.imports.iter().filter(|import| {
            let used = |(path, _): &(Vec<String>, usize)| path[0] == import.name;
            !import.public && !module.paths.iter().any(used)
        });
        let imported = unnamed.map(|import| (&import.path, import.line));
        let used = module.paths.iter().map(|(path, line)| (path, *line));
        for (path, line) in imported.chain(used) {
            let Some((owner, name)) = resolve(tree, index, path, false, &mut BTreeSet::new())
            else {
                continue;
            };
            let (from, to) = (module.file.as_str(), tree[owner].file.as_str());
            if from != to && !contains(tree, index, owner) {
                found.entry((from, to)).or_insert_with(|| Edge {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    name,
                    line,
                });
            }
        }
    }
    found.into_values().collect()
}

/// Whether `inner` is below `outer` in the tree of modules.
fn contains(tree: &[Module], outer: usize, inner: usize) -> bool {
    std::iter::successors(Some(inner), |&at| tree[at].parent).any(|at| at == outer)
}

/// The module that defines what a path names, and the name; `None` if it is a module or another
/// crate's. If it is `uncertain` that the path exists, a definition must be seen.
fn resolve(
    tree: &[Module],
    from: usize,
    path: &[String],
    uncertain: bool,
    visited: &mut BTreeSet<(usize, String)>,
) -> Option<(usize, String)> {
    let mut at = from;
    for (position, segment) in path.iter().enumerate() {
        match segment.as_str() {
            "crate" => at = 0,
            "self" => {}
            "super" => at = tree[at].parent?,
            name => {
                if let Some(&child) = tree[at].children.get(name) {
                    at = child;
                    continue;
                }
                if tree[at].items.contains(name) {
                    return Some((at, name.to_owned()));
                }
                if !visited.insert((at, name.to_owned())) {
                    return None;
                }
                for import in &tree[at].imports {
                    let all = import.name == "*";
                    if !all && import.name != name {
                        continue;
                    }
                    let skipped = if all { position } else { position + 1 };
                    let path = [&import.path, &path[skipped..]].concat();
                    let found = resolve(tree, at, &path, uncertain || all, visited);
                    if found.is_some() {
                        return found;
                    }
                }
                // A macro may define it, in the module that the path names.
                let elsewhere = position > 0 && at != from && !uncertain;
                return elsewhere.then(|| (at, name.to_owned()));
            }
        }
    }
    None
}

/// One circle per group of files that reach one another, as the edges around it.
pub(super) fn circles(edges: &[Edge]) -> Vec<Vec<Edge>> {
    let mut found = Vec::new();
    let mut done = BTreeSet::new();
    let files: BTreeSet<_> = edges.iter().map(|edge| edge.from.as_str()).collect();
    for file in files {
        if done.contains(file) {
            continue;
        }
        if let Some(circle) = shortest_circle(edges, file) {
            done.extend(
                edges
                    .iter()
                    .map(|edge| edge.from.as_str())
                    .filter(|other| circle.iter().any(|edge| edge.from == *other)),
            );
            found.push(circle);
        }
    }
    found
}

/// The shortest way from a file back to it.
fn shortest_circle(edges: &[Edge], start: &str) -> Option<Vec<Edge>> {
    let mut before: BTreeMap<&str, &Edge> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(file) = queue.pop_front() {
        for edge in edges.iter().filter(|edge| edge.from == file) {
            if edge.to == start {
                let mut way = vec![edge.clone()];
                while way[0].from != start {
                    way.insert(0, before[way[0].from.as_str()].clone());
                }
                return Some(way);
            }
            if !before.contains_key(edge.to.as_str()) {
                before.insert(&edge.to, edge);
                queue.push_back(&edge.to);
            }
        }
    }
    None
}
