;; error: invalid
;; message: recommendations[0].saving.expected is NaN
;; A NaN saving.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (f64.store (i32.const 2104) (f64.const nan))
  (i32.const 1792))
