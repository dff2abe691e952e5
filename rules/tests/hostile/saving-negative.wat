;; error: invalid
;; message: recommendations[0].saving.low is -0.5
;; A negative saving.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (f64.store (i32.const 2096) (f64.const -0.5))
  (i32.const 1792))
