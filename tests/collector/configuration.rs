//! What `otel-config/collector` holds, as the Collector itself judges it.

use crate::otelcol::Otelcol;

#[test]
fn the_pipelines_that_ship_are_valid() {
    let Some(otelcol) = Otelcol::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let validate = |files: &[&str], backend: Option<&str>| {
        let mut command = otelcol.command(Some("validate"), files, folder.path());
        command.envs(backend.map(|backend| ("OTELCOL_BACKEND", backend)));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    };
    assert_eq!(validate(&["collector.yaml"], None), Ok(()));
    let both = ["collector.yaml", "forward.yaml"];
    assert_eq!(validate(&both, Some("backend:4317")), Ok(()));
    let refused = validate(&both, None).unwrap_err();
    assert!(refused.contains("endpoint"), "{refused}");
}
