//! Container images, assembled from files of this machine and imported without a registry.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::node::output;

/// A layer of an image in a directory of layers.
pub(crate) struct Layer {
    digest: String,
}

/// A directory in which images are assembled, in the OCI image layout.
pub(crate) struct Images {
    dir: PathBuf,
}

impl Images {
    /// Empty.
    pub(crate) fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
        fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self { dir: dir.to_owned() }
    }

    /// A layer of programs, without symbols, and the libraries that they load. Of each program, the file and its path
    /// in the image.
    pub(crate) fn layer(&self, programs: &[(&Path, &str)]) -> Layer {
        let root = self.dir.join("root");
        let mut libraries = BTreeSet::new();
        for (file, path) in programs {
            let target = root.join(path);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            output(Command::new("strip").arg("-o").arg(&target).arg(file));
            fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).unwrap();
            libraries.extend(loaded(file));
        }
        for library in libraries {
            let target = root.join(library.strip_prefix("/").unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(&library, target).unwrap();
        }
        let archive = self.dir.join("layer.tar");
        tar(&archive, &root);
        let digest = self.blob(&fs::read(&archive).unwrap());
        fs::remove_dir_all(root).unwrap();
        fs::remove_file(archive).unwrap();
        Layer { digest }
    }

    /// Imports an image into containerd's namespace of Kubernetes.
    pub(crate) fn import(&self, name: &str, layers: &[&Layer], entrypoint: &[&str]) {
        let digests: Vec<_> =
            layers.iter().map(|layer| format!("sha256:{}", layer.digest)).collect();
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": { "Entrypoint": entrypoint, "Env": ["PATH=/usr/bin"] },
            "rootfs": { "type": "layers", "diff_ids": digests },
        });
        let config = self.descriptor("config.v1+json", &self.blob(config.to_string().as_bytes()));
        let layers: Vec<_> =
            layers.iter().map(|layer| self.descriptor("layer.v1.tar", &layer.digest)).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": layers,
        });
        let mut manifest =
            self.descriptor("manifest.v1+json", &self.blob(manifest.to_string().as_bytes()));
        manifest["annotations"] = json!({ "io.containerd.image.name": name });
        let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
        fs::write(self.dir.join("index.json"), index.to_string()).unwrap();

        let archive = self.dir.with_extension("tar");
        tar(&archive, &self.dir);
        output(Command::new("ctr").args(["-n", "k8s.io", "images", "import"]).arg(&archive));
        fs::remove_file(archive).unwrap();
    }

    /// Writes a blob; its digest.
    fn blob(&self, bytes: &[u8]) -> String {
        let digest = format!("{:x}", Sha256::digest(bytes));
        fs::write(self.dir.join("blobs/sha256").join(&digest), bytes).unwrap();
        digest
    }

    fn descriptor(&self, kind: &str, digest: &str) -> Value {
        let size = fs::metadata(self.dir.join("blobs/sha256").join(digest)).unwrap().len();
        json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": format!("sha256:{digest}"),
            "size": size,
        })
    }
}

/// The libraries and the dynamic linker that a program loads; none if it is static.
fn loaded(program: &Path) -> Vec<PathBuf> {
    let libraries = Command::new("ldd").arg(program).output().unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    let paths = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(|path| PathBuf::from(path.trim_end_matches(':'))).collect()
}

fn tar(archive: &Path, dir: &Path) {
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "-cf"]).arg(archive).arg("-C").arg(dir).arg(".");
    output(&mut tar);
}
