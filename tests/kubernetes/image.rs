//! Container images, built by the scripts of `otel-config/image` and imported without a registry.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::node::output;

/// Where images are built.
pub(crate) struct Images {
    dir: PathBuf,
}

impl Images {
    /// Empty.
    pub(crate) fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir).unwrap();
        Self { dir: dir.to_owned() }
    }

    /// A root directory with the files of the image of Phasemeter, without symbols of the binary. Its bill of materials
    /// is that of `make sbom`.
    pub(crate) fn phasemeter(&self, binary: &Path) -> PathBuf {
        let (root, stripped) = (self.dir.join("phasemeter"), self.dir.join("bin/phasemeter"));
        fs::create_dir_all(stripped.parent().unwrap()).unwrap();
        output(Command::new("strip").arg("-o").arg(&stripped).arg(binary));
        let materials = script("../../target/release-files/phasemeter.cdx.json");
        assert!(materials.is_file(), "no bill of materials: run `make sbom`");
        fs::copy(&materials, stripped.with_extension("cdx.json")).unwrap();
        output(Command::new(script("root.sh")).arg(&stripped).arg(&root));
        root
    }

    /// A root directory of programs, without symbols, and the libraries that they load. Of each program, the file and
    /// its path in the image.
    pub(crate) fn root(&self, name: &str, programs: &[(&Path, &str)]) -> PathBuf {
        let root = self.dir.join(name);
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
        root
    }

    /// Imports an image of these root directories into containerd's namespace of Kubernetes. Entry point, environment
    /// and user are those of the last stage of a Containerfile. It has a platform before the node's, which the node must
    /// not choose: there are no files in it.
    pub(crate) fn import(&self, name: &str, containerfile: &Path, roots: &[&Path]) {
        let archive = self.dir.join("image.tar");
        let mut pack = Command::new(script("archive.sh"));
        pack.env("VERSION", env!("CARGO_PKG_VERSION")).arg(&archive).arg(name).arg(containerfile);
        let (own, other) = architectures();
        let empty = self.dir.join("empty");
        fs::create_dir_all(&empty).unwrap();
        pack.arg(format!("{other}={}", empty.display()));
        let layers = roots.iter().map(|root| format!("{own}={}", root.display()));
        output(pack.args(layers));
        output(Command::new("ctr").args(["-n", "k8s.io", "images", "import"]).arg(&archive));
        fs::remove_file(archive).unwrap();
    }

    /// Imports an image of a test.
    pub(crate) fn import_for_test(&self, name: &str, instructions: &str, roots: &[&Path]) {
        let containerfile = self.dir.join("Containerfile");
        fs::write(&containerfile, format!("FROM scratch\nENV PATH=\"/usr/bin\"\n{instructions}\n"))
            .unwrap();
        self.import(name, &containerfile, roots);
    }
}

/// The Containerfile of Phasemeter.
pub(crate) fn containerfile() -> PathBuf {
    script("Containerfile")
}

/// This machine's, as images name it, and another.
fn architectures() -> (&'static str, &'static str) {
    if cfg!(target_arch = "aarch64") { ("arm64", "amd64") } else { ("amd64", "arm64") }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../otel-config/image").join(name)
}

/// The libraries and the dynamic linker that a program loads; none if it is static.
fn loaded(program: &Path) -> Vec<PathBuf> {
    let libraries = Command::new("ldd").arg(program).output().unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    let paths = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(|path| PathBuf::from(path.trim_end_matches(':'))).collect()
}
