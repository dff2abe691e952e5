//! Why two reports cannot be compared.

/// Why two reports cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// They are of different work.
    #[error("{before} and {after} are not comparable: {}", .reasons.join("; "))]
    NotComparable {
        /// The report before.
        before: String,
        /// The report after.
        after: String,
        /// All reasons.
        reasons: Vec<String>,
    },
    /// What was done was not recommended.
    #[error("{before}: does not recommend {code:?}; {}", expected(.codes))]
    NotRecommended {
        /// The report before.
        before: String,
        /// What was done.
        code: String,
        /// What it recommends.
        codes: Vec<String>,
    },
}

fn expected(codes: &[String]) -> String {
    if codes.is_empty() {
        return "it has no recommendations".to_owned();
    }
    format!("expected one of {}", codes.join(", "))
}
