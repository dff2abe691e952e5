;; error: invalid
;; message: recommendations[0].saving.high is 1.5
;; A saving of more than the whole bill.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (f64.store (i32.const 2112) (f64.const 1.5))
  (i32.const 1792))
