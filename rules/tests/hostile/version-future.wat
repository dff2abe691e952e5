;; error: load.unsupported_version
;; message: 0.2.0
;; when: load
;; world: newer
(func (export "phasemeter:policy/policy@0.2.0#describe") (result i32) (i32.const 0))
