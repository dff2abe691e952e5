;; error: output
;; A million GPUs.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 1804) (i32.const 4096))
  (i32.store (i32.const 1808) (i32.const 1))
  (i32.store (i32.const 4096) (i32.const 336))
  (i32.store (i32.const 4100) (i32.const 3))
  (i32.store (i32.const 4104) (i32.const 368))
  (i32.store (i32.const 4108) (i32.const 9))
  (i32.store (i32.const 4112) (i32.const 400))
  (i32.store (i32.const 4116) (i32.const 1))
  (i32.store (i32.const 4116) (i32.const 1000000))
  (i32.const 1792))
