;; error: settings
;; message: mig: It idles.
;; when: load
(func (export "phasemeter:policy/policy@0.1.0#configure") (param i32 i32) (result i32)
  (drop (call $recommendation))
  ;; error, a list of one at 3072: path "mig", message "It idles."
  (i32.store8 (i32.const 2560) (i32.const 1))
  (i32.store (i32.const 2564) (i32.const 3072))
  (i32.store (i32.const 2568) (i32.const 1))
  (i32.store (i32.const 3072) (i32.const 336))
  (i32.store (i32.const 3076) (i32.const 3))
  (i32.store (i32.const 3080) (i32.const 368))
  (i32.store (i32.const 3084) (i32.const 9))
  (i32.const 2560))
