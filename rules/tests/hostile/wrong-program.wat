;; error: load.not_a_policy
;; message: does not export
;; when: load
;; world: no-policy
(func (export "run") (result i32) (i32.const 0))
