;; error: output
;; A million recommendations beyond the end of memory.
(func (export "phasemeter:policy/recommender@0.1.0#recommend") (type $recommend)
  (drop (call $recommendation))
  (i32.store (i32.const 1800) (i32.const 1000000))
  (i32.const 1792))
