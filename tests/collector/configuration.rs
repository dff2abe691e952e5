//! The Collector itself validates `otel-config/collector`.

use crate::otelcol::Otelcol;

#[test]
fn shipped_pipelines_are_valid() {
    let Some(otelcol) = Otelcol::find() else { return };
    let dir = tempfile::tempdir().unwrap();
    let validate = |files: &[&str], backend: Option<&str>| {
        let mut command = otelcol.command(Some("validate"), files, dir.path());
        command.envs(backend.map(|backend| ("OTELCOL_BACKEND", backend)));
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(stderr) }
    };
    assert_eq!(validate(&["collector.yaml"], None), Ok(()));
    assert_eq!(validate(&["collector.yaml", "archive.yaml"], None), Ok(()));
    assert_eq!(validate(&["collector.yaml", "gateway.yaml"], None), Ok(()));
    let inference = ["collector.yaml", "gateway.yaml", "inference.yaml"];
    assert_eq!(validate(&inference, None), Ok(()));
    let replicas = ["collector.yaml", "gateway.yaml", "replicas.yaml"];
    assert_eq!(validate(&replicas, None), Ok(()));
    let both = ["collector.yaml", "forward.yaml"];
    assert_eq!(validate(&both, Some("backend:4317")), Ok(()));
    let rejected = validate(&both, None).unwrap_err();
    assert!(rejected.contains("endpoint"), "{rejected}");
}
