;; error: load.forbidden_import
;; message: wasi:clocks/wall-clock@0.2.0
;; when: load
;; world: wasi
(import "wasi:clocks/wall-clock@0.2.0" "now" (func (result i64)))
