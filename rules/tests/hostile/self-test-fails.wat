;; error: guest
;; message: It idles.
;; when: load
;; world: self-testing
(func (export "phasemeter:policy/self-test@0.1.0#run") (result i32)
  (i32.store8 (i32.const 2560) (i32.const 1))
  (i32.store (i32.const 2564) (i32.const 368))
  (i32.store (i32.const 2568) (i32.const 9))
  (i32.const 2560))
