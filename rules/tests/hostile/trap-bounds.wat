;; error: trap
;; message: out of bounds
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (i32.load (i32.const 0x7fffffff)))
