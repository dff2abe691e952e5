;; error: load.forbidden_import
;; message: wasi_snapshot_preview1
;; when: load
(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
