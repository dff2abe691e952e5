//! Packs workloads onto GPUs: first fit, largest first.

/// Assigns each item to a GPU; `fits` decides if a GPU with these items holds one more. Returns the
/// items of each GPU by index, or the index of an item that fits no empty GPU.
pub(crate) fn pack(
    order: &[usize],
    mut fits: impl FnMut(&[usize], usize) -> bool,
) -> Result<Vec<Vec<usize>>, usize> {
    let mut gpus: Vec<Vec<usize>> = Vec::new();
    for &item in order {
        match gpus.iter_mut().find(|gpu| fits(gpu, item)) {
            Some(gpu) => gpu.push(item),
            None if fits(&[], item) => gpus.push(vec![item]),
            None => return Err(item),
        }
    }
    Ok(gpus)
}

/// Indices of the items, largest key first; equal keys keep their order.
pub(crate) fn largest_first<T, K: Ord>(items: &[T], key: impl Fn(&T) -> K) -> Vec<usize> {
    let mut keyed: Vec<(K, usize)> =
        items.iter().enumerate().map(|(index, item)| (key(item), index)).collect();
    keyed.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
    keyed.into_iter().map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_fill_gpus_in_order_and_too_large_item_is_named() {
        let sizes = [3, 7, 4, 6];
        let order = largest_first(&sizes, |size| *size);
        assert_eq!(order, [1, 3, 2, 0]);
        let fits = |gpu: &[usize], item: usize| {
            gpu.iter().map(|&it| sizes[it]).sum::<u32>() + sizes[item] <= 10
        };
        assert_eq!(pack(&order, fits), Ok(vec![vec![1, 0], vec![3, 2]]));
        assert_eq!(pack(&[1, 0], |_, item| item == 1), Err(0));
    }
}
