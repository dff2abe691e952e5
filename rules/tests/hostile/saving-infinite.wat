;; error: invalid
;; message: recommendations[0].saving.high is inf
;; An infinite saving.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (f64.store (i32.const 2112) (f64.const inf))
  (i32.const 1792))
