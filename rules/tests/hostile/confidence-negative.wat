;; error: invalid
;; message: recommendations[0].confidence is
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (f64.store (i32.const 2120) (f64.const -0.1))
  (i32.const 1792))
