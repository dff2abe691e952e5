;; error: trap
;; message: divide by zero
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (i32.div_u (i32.const 1) (i32.const 0)))
