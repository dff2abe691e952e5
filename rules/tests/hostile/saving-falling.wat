;; error: invalid
;; message: recommendations[0].saving is out of order
;; The low estimate exceeds the expected one.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (f64.store (i32.const 2096) (f64.const 0.25))
  (i32.const 1792))
