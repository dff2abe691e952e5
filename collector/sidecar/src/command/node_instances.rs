//! The MIG instances of a node's GPUs, for polls of who holds them.

use phasemeter_holders::NodeInstance;
use phasemeter_meter::mig::MigLayout;
use phasemeter_sources::live::MigInstance;

/// The instances of one GPU without the processes on them, and the part of it that each is by its slices.
pub(super) fn listed<'i>(
    instances: impl Iterator<Item = &'i MigInstance>,
    model: Option<&str>,
) -> Vec<NodeInstance> {
    let listed = |instance: &MigInstance| NodeInstance {
        uuid: instance.id.to_string(),
        gpu_instance: instance.gpu_instance,
        profile: instance.profile.map(|profile| profile.to_string()),
        start: instance.start,
        ..NodeInstance::default()
    };
    let mut listed: Vec<NodeInstance> = instances.map(listed).collect();
    // A part of the GPU is known only beside those of all others.
    let profiles: Vec<_> = listed.iter().map(|it| it.profile.clone()).collect();
    for (instance, share) in listed.iter_mut().zip(MigLayout::shares_of(model, &profiles)) {
        instance.share = share;
    }
    listed
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::device_metric::MigId;
    use phasemeter_meter::holder::Share;
    use phasemeter_sources::live::MigProfile;

    use super::*;

    fn shares(model: &str, profiles: &[&str]) -> Vec<Option<(u32, u32)>> {
        let instance = |(place, profile): (usize, &&str)| MigInstance {
            id: MigId::parse(&format!("MIG-00000000-0000-0000-0000-{place:012}")).unwrap(),
            gpu_instance: None,
            profile: MigProfile::at_end_of(&format!("{model} MIG {profile}")),
            start: None,
        };
        let instances: Vec<_> = profiles.iter().enumerate().map(instance).collect();
        let listed = listed(instances.iter(), Some(model));
        listed.iter().map(|it| it.share.map(Share::ratio)).collect()
    }

    #[test]
    fn share_is_the_larger_of_compute_and_memory() {
        let h100 = "NVIDIA H100 80GB HBM3";
        // Of seven compute and eight memory slices.
        assert_eq!(
            shares(h100, &["1g.10gb", "1g.20gb", "3g.40gb"]),
            [Some((8, 56)), Some((14, 56)), Some((28, 56))]
        );
        // Four of seven and three of seven have all memory: together they are one GPU.
        assert_eq!(shares(h100, &["4g.40gb", "3g.40gb"]), [Some((32, 60)), Some((28, 60))]);
        assert_eq!(shares("NVIDIA A30", &["2g.12gb"]), [Some((8, 16))]);
        assert_eq!(shares(h100, &["1g.10gb", ""]), [None, None]);
    }
}
