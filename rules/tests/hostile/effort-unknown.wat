;; error: output
;; The effort is none of three.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store8 (i32.const 2145) (i32.const 255))
  (i32.const 1792))
