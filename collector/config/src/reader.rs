//! Collects variables, and finds the values that had no effect.

use std::collections::{BTreeMap, BTreeSet};

use crate::node::{Kind, Node, Value};
use crate::yaml::join;

/// A variable of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: String,
    /// The key that it comes from, and its line.
    pub(crate) key: String,
    pub(crate) line: usize,
}

/// Collects variables, and which values had an effect.
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) settings: BTreeMap<String, Setting>,
    /// The addresses of values that had an effect.
    used: BTreeSet<*const Node>,
}

impl Reader {
    /// That this value has its effect.
    pub(crate) fn take(&mut self, node: &Node) {
        self.used.insert(std::ptr::from_ref(node));
    }

    pub(crate) fn set(&mut self, variable: &str, value: String, key: &str, line: usize) {
        let setting = Setting { value, key: key.to_owned(), line };
        self.settings.insert(variable.to_owned(), setting);
    }

    fn has_effect(&self, node: &Node) -> bool {
        let below = match &node.value {
            Value::Mapping(entries) => entries.iter().any(|entry| self.has_effect(&entry.node)),
            Value::Sequence(items) => items.iter().any(|item| self.has_effect(item)),
            Value::Scalar(_) => false,
        };
        below || self.used.contains(&std::ptr::from_ref(node))
    }

    /// Adds the highest keys without any effect.
    pub(crate) fn unused(
        &self,
        node: &Node,
        line: usize,
        path: &str,
        found: &mut Vec<(usize, String)>,
    ) {
        let is_unset =
            node.scalar().is_some_and(|scalar| scalar.kind == Kind::Null && scalar.substituted);
        if is_unset || self.used.contains(&std::ptr::from_ref(node)) {
            return;
        }
        if !self.has_effect(node) {
            found.push((line, path.to_owned()));
            return;
        }
        for entry in node.entries() {
            self.unused(&entry.node, entry.line, &join(path, &entry.key), found);
        }
        for (index, item) in node.items().iter().enumerate() {
            self.unused(item, item.line, &format!("{path}[{index}]"), found);
        }
    }
}
