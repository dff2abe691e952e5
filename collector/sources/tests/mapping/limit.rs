//! GPUs over the limit of a buffer: the first ones are read, all others are counted.

use phasemeter_meter::reading::Basis;
use phasemeter_sources::mapping::{Inserted, ReadingBuffer};
use proptest::prelude::*;

use crate::{HOLD, arrival, utilization};

/// The name of a GPU.
fn name(gpu: u8) -> String {
    format!("GPU-{gpu}")
}

proptest! {
    /// In any order of arrival, which GPUs are read is decided by their first values.
    #[test]
    fn first_gpus_are_read_and_others_are_counted(
        gpus in prop::collection::vec(0_u8..9, 1..80),
        max in 1_usize..7,
    ) {
        let mut buffer = ReadingBuffer::new(HOLD, None, None).with_max_gpus(max);
        let (mut read, mut over_limit, mut values) = (Vec::new(), Vec::new(), 0);
        for (second, gpu) in (0..).zip(gpus) {
            let gpu = name(gpu);
            let value = utilization(&gpu, second, Basis::DcgmGpu, 50);
            let Inserted { buffer_index: number, over_limit: named, .. } = buffer.insert(value, arrival(second));
            if !read.contains(&gpu) && read.len() < max {
                read.push(gpu.clone());
            }
            prop_assert_eq!(number, read.iter().position(|known| *known == gpu));
            let is_over = number.is_none();
            let is_first = is_over && !over_limit.contains(&gpu);
            prop_assert_eq!(named, is_first.then(|| gpu.clone()));
            over_limit.extend(is_first.then_some(gpu));
            values += u64::from(is_over);
        }
        let known: Vec<_> = buffer.identities().iter().map(|it| it.name.clone()).collect();
        prop_assert_eq!(known, read);
        prop_assert_eq!(buffer.over_limit().count(), over_limit.len());
        prop_assert_eq!(buffer.over_limit().values(), values);
        prop_assert_eq!(buffer.dropped(), 0, "none is late");
    }
}

/// Scenario: a sender names thousands of GPUs, before and between the 16 of each of many hosts.
/// Guarantee: all of the hosts are read, as long as they fit into the last quarter.
#[test]
fn gpus_of_one_sender_keep_none_of_others_out() {
    let max = 1_000;
    for before in [0, 700, 5_000] {
        let mut buffer = ReadingBuffer::new(HOLD, None, None).with_max_gpus(max);
        let insert = |buffer: &mut ReadingBuffer, gpu: String, host: &str| {
            let mut value = utilization(&gpu, 15, Basis::DcgmGpu, 50);
            value.gpu.host = Some(host.to_owned());
            buffer.insert(value, arrival(15)).buffer_index.is_some()
        };
        let mut next = 0;
        let mut fakes = |buffer: &mut ReadingBuffer, count: u32| {
            let numbers = next..next + count;
            next += count;
            numbers.filter(|n| insert(buffer, format!("fake-{n}"), "stranger")).count()
        };
        let mut read = fakes(&mut buffer, before);
        for host in 0..15 {
            read += fakes(&mut buffer, 100);
            for gpu in 0..16 {
                let name = format!("GPU-{host}-{gpu}");
                assert!(insert(&mut buffer, name, &format!("node-{host}")), "{before}: {host}");
            }
        }
        assert!(read <= max * 3 / 4 && read >= max * 3 / 4 - 15 * 16, "{read}");
        assert!(!buffer.is_full());
    }
}
