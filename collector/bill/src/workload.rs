//! The workload of a pod, by the name that Kubernetes gives its pods.

/// The characters of random suffixes: no vowels, so that they are no words.
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";

/// The name of the workload without what its controller appends: `-HASH-RANDOM` of a deployment, `-ORDINAL` of a
/// stateful set, `-RANDOM` of a job or daemon set, `-INDEX-RANDOM` of an indexed job. A pod of its own is its workload.
pub(crate) fn of_pod(pod: &str) -> &str {
    let is_random = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
        lengths.contains(&text.len()) && text.chars().all(|c| RANDOM.contains(c))
    };
    let is_ordinal = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some((name, last)) = pod.rsplit_once('-') else { return pod };
    if !is_random(last, 5..=5) {
        return if is_ordinal(last) { name } else { pod };
    }
    match name.rsplit_once('-') {
        Some((name, hash)) if is_random(hash, 8..=10) || is_ordinal(hash) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workload_is_the_pod_without_what_its_controller_appends() {
        for (pod, workload) in [
            ("chat-7c9d8f6b5-x2k4z", "chat"),
            ("chat-v2-6b8d9c7f4d-bcdfg", "chat-v2"),
            ("train-0", "train"),
            ("train-12", "train"),
            ("batch-x7bq2", "batch"),
            ("sweep-3-x7bq2", "sweep"),
            ("notebook", "notebook"),
            ("jupyter-alice", "jupyter-alice"),
            ("-0", ""),
        ] {
            assert_eq!(of_pod(pod), workload, "{pod}");
        }
    }
}
