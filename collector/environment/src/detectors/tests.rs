//! Systems as their files and variables describe them.

use phasemeter_otlp::experiment::Attributes;

use super::{Container, System, add_from};

const ID: &str = "8f1b3c5d7e9a0b2c4d6e8f0a1b2c3d4e5f60718293a4b5c6d7e8f9a0b1c2d3e4";
const OTHER_ID: &str = "0a1b3c5d7e9a0b2c4d6e8f0a1b2c3d4e5f60718293a4b5c6d7e8f9a0b1c2d3e4";
const UID: &str = "5f1d0c2e-7b1a-4c3d-9e8f-0a1b2c3d4e5f";

/// A pod of containerd: its control group is a namespace of its own.
fn pod(mounts: &str) -> [(&str, &str); 4] {
    [
        ("/proc/self/mountinfo", mounts),
        ("/proc/self/cgroup", "0::/\n"),
        ("/var/run/secrets/kubernetes.io/serviceaccount/namespace", "ml\n"),
        ("/etc/hosts", "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"),
    ]
}

fn pod_mounts() -> String {
    format!(
        "701 690 0:105 / / rw,relatime - overlay overlay rw\n\
         720 701 254:1 /var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts rw - ext4 /dev/vda rw\n\
         721 701 254:1 /var/lib/kubelet/pods/{UID}/containers/trainer/8aa7d3f1 /dev/termination-log rw - \
         ext4 /dev/vda rw\n\
         722 701 254:1 /var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/{OTHER_ID}/hostname \
         /etc/hostname rw - ext4 /dev/vda rw\n"
    )
}

const IN_CLUSTER: (&str, &str) = ("KUBERNETES_SERVICE_HOST", "10.96.0.1");

fn detect(
    files: &[(&str, &str)],
    variables: &[(&str, &str)],
    host_name: &str,
    container: Container,
    given: &[(&str, &str)],
) -> String {
    let find = |pairs: &[(&str, &str)], name: &str| {
        let found = pairs.iter().find(|(it, _)| *it == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let system = System {
        variable: &|name| find(variables, name),
        file: &|path| find(files, path),
        host_name: host_name.to_owned(),
    };
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let mut attributes: Attributes = given.iter().map(owned).collect();
    add_from(&system, &mut attributes, container);
    let shown: Vec<_> = attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
    shown.join(" ")
}

#[test]
fn nothing_is_detected_where_nothing_is_known() {
    for container in [Container::Workload, Container::Own] {
        assert_eq!(detect(&[], &[], "node-7", container, &[]), "");
        // These are the user's own variables.
        let variables = [("POD_NAME", "a"), ("NODE_NAME", "b"), ("AWS_REGION", "us-east-1")];
        assert_eq!(detect(&[], &variables, "trainer-x2x4z", container, &[]), "");
    }
}

#[test]
fn pod_of_a_command_is_detected_by_its_mounts() {
    let mounts = pod_mounts();
    let own = |host_name| detect(&pod(&mounts), &[IN_CLUSTER], host_name, Container::Workload, &[]);
    let known = format!("k8s.container.name=trainer k8s.namespace.name=ml{{}} k8s.pod.uid={UID}");
    let with = |name: &str| known.replace("{}", name);
    assert_eq!(own("trainer-7d9f8b6c5-x2x4z"), with(" k8s.pod.name=trainer-7d9f8b6c5-x2x4z"));
    // A host name of the specification, a replica of a StatefulSet, indexes of jobs.
    for uncertain in ["trainer", "trainer-0", "trainer-24567", "trainer-train", "Trainer-x2x4z"] {
        assert_eq!(own(uncertain), with(""), "{uncertain}");
    }
    let cut = format!("{}-x2x4z", "a".repeat(57));
    assert_eq!(own(&cut), with(""), "63 characters may be the beginning of a name");
    // Also without variables of the cluster.
    assert_eq!(detect(&pod(&mounts), &[], "trainer", Container::Workload, &[]), with(""));
}

#[test]
fn host_name_of_the_node_is_not_the_name_of_a_pod() {
    let mounts = pod_mounts();
    let mut files = pod(&mounts);
    files[3].1 = "# Kubernetes-managed hosts file (host network).\n127.0.0.1\tlocalhost\n";
    let detected = detect(&files, &[IN_CLUSTER], "pool-a-x2x4z", Container::Workload, &[]);
    assert!(!detected.contains("k8s.pod.name"), "{detected}");
}

/// An agent of a node is not in the pod of the workload, and nor is a sidecar in its container.
#[test]
fn pod_of_another_process_is_the_one_that_variables_name() {
    let mounts = pod_mounts();
    let beside = |variables: &[_]| {
        let variables = [&[IN_CLUSTER], variables].concat();
        detect(&pod(&mounts), &variables, "agent-x2x4z", Container::Own, &[])
    };
    assert_eq!(beside(&[]), "");
    assert_eq!(beside(&[("K8S_NODE_NAME", "node-7")]), "k8s.node.name=node-7");
    assert_eq!(
        beside(&[("POD_NAME", "agent-x2x4z"), ("NODE_NAME", "node-7")]),
        format!(
            "k8s.namespace.name=ml k8s.node.name=node-7 k8s.pod.name=agent-x2x4z k8s.pod.uid={UID}"
        )
    );
}

#[test]
fn variables_of_the_operator_come_first_and_invalid_ones_do_not_count() {
    let variables = [
        IN_CLUSTER,
        ("OTEL_RESOURCE_ATTRIBUTES_POD_NAME", "trainer-0"),
        ("POD_NAME", "other"),
        ("POD_UID", "$(uid)"),
        ("POD_NAMESPACE", "ML team"),
        ("MY_NODE_NAME", "node-7.example.com"),
    ];
    let detected = detect(&[], &variables, "trainer", Container::Workload, &[]);
    assert_eq!(detected, "k8s.node.name=node-7.example.com k8s.pod.name=trainer-0");
}

#[test]
fn given_attributes_take_precedence_and_exclude_what_they_contradict() {
    let mounts = pod_mounts();
    let given = |given: &[_]| detect(&pod(&mounts), &[IN_CLUSTER], "x", Container::Workload, given);
    assert_eq!(
        given(&[("k8s.namespace.name", "ml"), ("team", "vision")]),
        format!("k8s.container.name=trainer k8s.namespace.name=ml k8s.pod.uid={UID} team=vision")
    );
    assert_eq!(given(&[("k8s.namespace.name", "web")]), "k8s.namespace.name=web");
}

#[test]
fn container_is_that_of_the_innermost_control_group() {
    let of = |groups: &str| {
        let files = [("/proc/self/cgroup", groups)];
        detect(&files, &[], "trainer", Container::Workload, &[])
    };
    let expected = format!("container.id={ID}");
    for path in [
        format!("/docker/{ID}"),
        format!("/system.slice/docker-{ID}.scope"),
        format!("/machine.slice/libpod-{ID}.scope/container"),
        format!("/kubepods.slice/kubepods-pod5f1d.slice/cri-containerd-{ID}.scope"),
        format!("/kubepods/besteffort/pod5f1d/{ID}"),
        format!("/kubepods-besteffort-pod5f1d.slice:cri-containerd:{ID}"),
        format!("/docker/{OTHER_ID}/kubelet/kubepods/pod5f1d/{ID}"),
        format!("/ecs/cluster/task/{ID}"),
    ] {
        assert_eq!(of(&format!("0::{path}\n")), expected, "{path}");
        assert_eq!(of(&format!("12:memory:{path}\n3:cpu,cpuacct:{path}\n0::/\n")), expected);
    }
    let uppercase = ID.to_uppercase();
    for none in ["0::/", "0::/user.slice/user-1000.slice/session-3.scope", "", ":", &uppercase] {
        assert_eq!(of(none), "", "{none}");
    }
    let differ = format!("2:memory:/docker/{ID}\n1:cpu:/docker/{OTHER_ID}\n");
    assert_eq!(of(&differ), "", "two containers");
    let files = [("/proc/self/cgroup", &*format!("0::/docker/{ID}"))];
    assert_eq!(detect(&files, &[], "trainer", Container::Own, &[]), "", "a container of its own");
}

#[test]
fn container_of_docker_and_podman_is_in_their_mounts() {
    let of = |root: &str| {
        let mounts = format!("721 701 254:1 {root} /etc/hostname rw - ext4 /dev/vda rw\n");
        let files = [("/proc/self/mountinfo", &*mounts), ("/proc/self/cgroup", "0::/\n")];
        detect(&files, &[], "trainer", Container::Workload, &[])
    };
    let expected = format!("container.id={ID}");
    assert_eq!(of(&format!("/var/lib/docker/containers/{ID}/hostname")), expected);
    assert_eq!(
        of(&format!("/containers/storage/overlay-containers/{ID}/userdata/hostname")),
        expected
    );
    assert_eq!(of(&format!("/var/lib/containerd/sandboxes/{ID}/hostname")), "", "of the pod");
}

#[test]
fn machine_of_a_cloud_is_named_by_its_firmware() {
    let of = |files: &[(&str, &str)], variables: &[(&str, &str)]| {
        let paths: Vec<_> =
            files.iter().map(|(name, text)| (format!("/sys/class/dmi/id/{name}"), *text)).collect();
        let files: Vec<_> = paths.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        detect(&files, variables, "node-7", Container::Own, &[])
    };
    let nitro = [("sys_vendor", "Amazon EC2\n"), ("product_name", "p5.48xlarge\n")];
    assert_eq!(of(&nitro, &[]), "cloud.platform=aws_ec2 cloud.provider=aws host.type=p5.48xlarge");
    assert_eq!(of(&nitro, &[IN_CLUSTER]), "cloud.provider=aws host.type=p5.48xlarge");
    let xen = [("bios_version", "4.11.amazon"), ("product_name", "HVM domU")];
    assert_eq!(of(&xen, &[]), "cloud.platform=aws_ec2 cloud.provider=aws");
    let google = [("product_name", "Google Compute Engine"), ("sys_vendor", "Google")];
    assert_eq!(of(&google, &[]), "cloud.platform=gcp_compute_engine cloud.provider=gcp");
    let azure = [
        ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"),
        ("sys_vendor", "Microsoft Corporation"),
    ];
    assert_eq!(of(&azure, &[]), "cloud.platform=azure.vm cloud.provider=azure");
    // Hyper-V outside of Azure.
    assert_eq!(of(&azure[1..], &[]), "");
    assert_eq!(of(&[("sys_vendor", "Dell Inc."), ("product_name", "PowerEdge XE9680")], &[]), "");
}

#[test]
fn region_is_what_cloud_init_recorded() {
    let path = "/run/cloud-init/instance-data.json";
    let of = |text: &str| detect(&[(path, text)], &[], "node-7", Container::Own, &[]);
    let aws = r#"{"ds": {"meta_data": "redacted"}, "v1": {"cloud_name": "aws", "region": "us-east-1",
        "availability_zone": "us-east-1c", "instance_id": "i-1", "platform": "ec2"}}"#;
    let known = "cloud.availability_zone=us-east-1c cloud.platform=aws_ec2 cloud.provider=aws \
                 cloud.region=us-east-1";
    assert_eq!(of(aws), known);
    let azure =
        r#"{"v1": {"cloud_name": "azure", "region": "westeurope", "availability_zone": null}}"#;
    assert_eq!(of(azure), "cloud.platform=azure.vm cloud.provider=azure cloud.region=westeurope");
    for none in
        ["", "{", "[]", r#"{"v1": {"cloud_name": "nocloud", "region": "attic"}}"#, "{\"v1\": 1}"]
    {
        assert_eq!(of(none), "", "{none}");
    }
    // The given provider is another one: nothing of what was detected is true of it.
    let given = [("cloud.provider", "gcp")];
    assert_eq!(detect(&[(path, aws)], &[], "node-7", Container::Own, &given), "cloud.provider=gcp");
}

#[test]
fn container_service_is_named_by_its_variables() {
    let of = |variables: &[_]| detect(&[], variables, "node-7", Container::Workload, &[]);
    let ecs = [
        ("ECS_CONTAINER_METADATA_URI_V4", "http://169.254.170.2/v4/5f1d"),
        ("AWS_REGION", "eu-west-1"),
    ];
    assert_eq!(of(&ecs), "cloud.platform=aws_ecs cloud.provider=aws cloud.region=eu-west-1");
    let service = [("K_SERVICE", "llm"), ("K_CONFIGURATION", "llm")];
    assert_eq!(of(&service), "cloud.platform=gcp_cloud_run cloud.provider=gcp");
    assert_eq!(of(&[service[0], service[1], IN_CLUSTER]), "", "Knative in a cluster");
    let apps =
        [("CONTAINER_APP_ENV_DNS_SUFFIX", "happy-70162bb9.swedencentral.azurecontainerapps.io")];
    assert_eq!(
        of(&apps),
        "cloud.platform=azure.container_apps cloud.provider=azure cloud.region=swedencentral"
    );
}
