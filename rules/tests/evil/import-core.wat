;; fault: load.forbidden_import
;; says: wasi_snapshot_preview1
;; when: load
(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
