;; error: invalid
;; message: recommendations[0].evidence is NaN
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  ;; evidence: "mig", NaN, "mig" at 3072
  (i32.store (i32.const 3072) (i32.const 336))
  (i32.store (i32.const 3076) (i32.const 3))
  (f64.store (i32.const 3080) (f64.const nan))
  (i32.store (i32.const 3088) (i32.const 336))
  (i32.store (i32.const 3092) (i32.const 3))
  (i32.store (i32.const 2128) (i32.const 3072))
  (i32.store (i32.const 2132) (i32.const 1))
  (i32.const 1792))
