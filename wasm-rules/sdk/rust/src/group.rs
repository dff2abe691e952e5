//! Groups similar findings, which share a recommendation, and summarizes them.

/// Groups similar items: each joins the first group whose first item is similar.
pub fn groups<T>(
    items: impl IntoIterator<Item = T>,
    similar: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| similar(&group[0], &item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// Returns the mean of a value over items; 0 if there are none.
pub fn mean<T>(items: impl IntoIterator<Item = T>, value: impl Fn(T) -> f64) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for item in items {
        sum += value(item);
        count += 1.0;
    }
    sum / f64::max(count, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_collect_similar_items() {
        let found = groups([1, 2, 11, 3, 12], |a, b| i32::abs(a - b) < 5);
        assert_eq!(found, [vec![1, 2, 3], vec![11, 12]]);
    }

    #[test]
    fn mean_of_nothing_is_0() {
        assert_eq!(mean([1.0, 4.0], |value| 2.0 * value), 5.0);
        assert_eq!(mean([], |value: f64| value), 0.0);
    }
}
