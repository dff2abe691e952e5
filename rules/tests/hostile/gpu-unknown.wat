;; error: invalid
;; message: contains 'mig', which is not in the window
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 400) (i32.const 336))
  (i32.store (i32.const 404) (i32.const 3))
  (i32.const 1792))
