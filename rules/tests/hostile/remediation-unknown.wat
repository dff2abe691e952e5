;; error: output
;; The option is neither none nor some.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store8 (i32.const 2148) (i32.const 2))
  (i32.const 1792))
