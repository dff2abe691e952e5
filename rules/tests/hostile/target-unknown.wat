;; error: output
;; An invalid target.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store8 (i32.const 2056) (i32.const 77))
  (i32.const 1792))
