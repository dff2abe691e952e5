//! The GPUs of the node: eight of the fake driver, which the device plugin and the DRA driver of `gpu-plugin` offer.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fake_nvml::Fake;

/// What offers the GPUs. Ends when this process does.
pub(crate) struct Plugin {
    _process: Child,
}

/// The UUID of a GPU of the node. The device plugin offers 0 to 3, the DRA driver 4 to 7.
pub(crate) fn uuid(gpu: usize) -> String {
    format!("GPU-5e5ba0b2-d33d-2cd7-524f-00000000000{gpu}")
}

impl Plugin {
    /// Installs the driver in the node's directory and offers its GPUs.
    pub(crate) fn start(node: &Path) -> Self {
        let dir = node.join("driver");
        fs::create_dir(&dir).unwrap();
        // All processes agree on what happens when.
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
        Fake::install(&dir, "").unwrap();
        fs::write(dir.join("head.toml"), format!("start_unix_ms = {now}\n")).unwrap();
        for gpu in 0..8 {
            fs::write(dir.join(uuid(gpu) + ".toml"), device(gpu)).unwrap();
        }
        // The driver of the node itself, which an agent loads, has all GPUs.
        let (all, head) = (Path::new("/run/fake-nvml"), dir.join("head.toml"));
        fs::create_dir_all(all).unwrap();
        let script = fs::read_to_string(head).unwrap() + &(0..8).map(device).collect::<String>();
        Fake::install(all, "").unwrap();
        fs::write(all.join("all.toml"), script).unwrap();
        let list = |gpus: [usize; 4]| gpus.map(uuid).join(",");
        let process = Command::new("gpu-plugin")
            .args(["serve", "--node", "node", "--driver"])
            .arg(&dir)
            .args(["--device-plugin", &list([0, 1, 2, 3]), "--dra", &list([4, 5, 6, 7])])
            .stdin(Stdio::piped())
            .stderr(fs::File::create("/var/log/gpu-plugin.log").unwrap())
            .spawn()
            .unwrap();
        Self { _process: process }
    }
}

/// A GPU that is busy for a day.
fn device(gpu: usize) -> String {
    let uuid = uuid(gpu);
    format!(
        "
[[device]]
uuid = '{uuid}'
[[device.phase]]
for_ms = 86400000
utilization = 97
sm = 90
tensor = 40
dram = 30
power_w = 600
memory_used_mib = 70000
"
    )
}
